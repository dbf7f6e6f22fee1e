"""What each kind of fault cost a training, and whether that is too much.
usage: cost_of_faults.py FAULTS PROGRESS STEPS WHOLE_MS ROOM [KEEPS]
FAULTS has lines "MS KIND ...", PROGRESS lines "MS STEP" (watch_steps.py), STEPS
is how many the training has, WHOLE_MS how long it takes undisturbed, ROOM percent
of its time a fault may take, since others use the machine (with_room). Prints a
line for each kind and one for all; status 1 if something cost more than LIMITS
allows, or if less than KEEPS percent of the steps were kept: of those that the
training would have made in this time, at the pace that it has when it goes on.

A time without a new step counts as lost if it is longer than GAP_MS. It belongs
to the faults that came in it, or of which it may be the consequence. Faults and gaps that cannot be
told apart are judged together, by the sum of what each fault may cost; only a
fault that stands alone counts for the figures of its kind. A step is lost if it
is done again. Progress is seen each 0.1 s, so of each loss the steps of that
time are a guess.
"""
import sys
from statistics import median

GAP_MS = 400
BEAT_MS = 100
NO_FAULT_MS = 2000  # what the machine may do without any

# Kind: milliseconds that it may cost, and steps besides those of a beat.
RESTART = 2000
# A cable is cut for 2.2 s at most. TCP sends again after 0.2, 0.6, 1.4, 3 and 6.2 s,
# so the workers go on after 1.5 or 3 s; and --hang_timeout=0,3 of the scenario may be
# faster, take their stacks and start all again. No lease is waited for.
CABLE = 10000
LIMITS = {
    "worker": (RESTART, 1), "segv": (RESTART, 1), "hang": (RESTART + 4000, 1),
    "agent": (2 * RESTART, 1), "guard": (2 * RESTART, 1),
    "both": (2 * RESTART, 1), "power": (2 * RESTART, 1),
    "leave": (2 * RESTART + 2000, 1), "daemon": (1000, 1),
    "freeze": (2 * RESTART, 1), "cut": (CABLE, 1), "mute": (CABLE, 1),
    "deafen": (CABLE, 1), "lose": (CABLE, 1),
    # A cable that is cut is a silent machine: after heartbeat_timeout (1 s) the
    # others are told to stop, and hang in a collective until --shutdown_timeout
    # (2 s) is over.
    "host-power": (2 * RESTART, 1), "host-agent": (2 * RESTART, 1),
    "host-cut": (3000 + 2 * RESTART, 1),
    # Nothing but the disk is left, which has every hundredth step.
    "all": (2 * RESTART, 200),
}


def read(path):
    return [line.split() for line in open(path)]


faults = [(int(f[0]), f[1]) for f in read(sys.argv[1])]
progress = [(int(ms), int(step)) for ms, step in read(sys.argv[2])]
steps, whole_ms, room = (int(word) for word in sys.argv[3:6])
if len(progress) > 1 and (not faults or progress[1][0] < faults[0][0]):
    del progress[0]  # the start, up to the first step, is no fault's
guess = steps / whole_ms * BEAT_MS

# For how long after a fault the training may stop because of it: at once, but for
# those that show later.
LATER_MS = {"freeze": 3500, "leave": 3000, "daemon": 2500,
            # The outage, --hang_timeout, and the stacks of who hangs.
            "host-cut": 8000, "cut": 8000, "mute": 8000, "deafen": 8000, "lose": 8000}

# Losses: (begin, end, milliseconds, steps).
losses = []
last_ms, most = progress[0]
before = most
for ms, step in progress:
    if step < before:
        losses.append((last_ms, ms, 0, max(0, most + guess - step)))
    if step > most:
        if ms - last_ms > GAP_MS:
            losses.append((last_ms, ms, ms - last_ms, 0))
        last_ms, most = ms, step
    before = step

# Groups of faults and losses that belong together: they overlap in time.
spans = [(at, at + LATER_MS.get(kind, 500), kind, None) for at, kind in faults]
spans += [(begin, end, None, (lost_ms, lost))
          for begin, end, lost_ms, lost in losses]
groups = []
until = None
for begin, end, kind, loss in sorted(spans, key=lambda s: s[:2]):
    if until is None or begin > until:
        groups.append(([], []))
        until = end
    until = max(until, end)
    groups[-1][0].extend([kind] if kind else [])
    groups[-1][1].extend([loss] if loss else [])

alone = {}
wrong = []
for kinds, lost in groups:
    cost = sum(ms for ms, _ in lost), sum(n for _, n in lost)
    if not kinds:
        may = NO_FAULT_MS * room // 100, 0
    else:
        may = (sum(LIMITS[k][0] for k in kinds) * room // 100,
               sum(LIMITS[k][1] + 2 * guess for k in kinds))
    if cost[0] > may[0] or cost[1] > may[1]:
        wrong.append(f"{' '.join(kinds) or 'no fault'}: {cost[0]} ms and"
                     f" {cost[1]:.0f} steps, above {may[0]} ms and {may[1]:.0f}")
    if len(kinds) == 1:
        alone.setdefault(kinds[0], []).append(cost)

for kind, costs in sorted(alone.items()):
    times, lost = zip(*costs)
    print(f"{kind}: {len(costs)} alone, median {median(times) / 1000:.1f} s,"
          f" most {max(times) / 1000:.1f} s (allowed {LIMITS[kind][0] / 1000:g}"
          f" s), {sum(lost):.0f} steps done twice")
mixed = sum(len(kinds) for kinds, _ in groups if len(kinds) > 1)
if mixed:
    print(f"{mixed} faults came too close to others to be told apart")
wall = progress[-1][0] - progress[0][0]
down = sum(loss[2] for loss in losses)
lost = sum(loss[3] for loss in losses)
print(f"about {lost:.0f} of {steps} steps done twice; training went on in"
      f" {100 * (1 - down / max(wall, 1)):.1f} % of {wall / 1000:.0f} s, in"
      f" {wall / whole_ms:.1f} times the undisturbed time; a fault may take"
      f" {room} % of its time")
pace = steps / max(wall - down, 1)
kept = 100 * steps / (steps + lost + pace * down)
print(f"{kept:.1f} % of the steps kept that the time allowed")
if len(sys.argv) > 6 and kept < float(sys.argv[6]):
    wrong.append(f"{kept:.1f} % of the steps kept, below {sys.argv[6]} %")
for text in wrong:
    print(f"too much: {text}")
sys.exit(1 if wrong else 0)
