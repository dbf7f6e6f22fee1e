# usage: goodput_of_events.py REPORT EVENTS...
#
# Whether the goodput in a run's report (--report, of any node) is what the
# --events files of all nodes sum up to, to 1 % of the run's age and a tenth of a
# second for the messages. From events it is known when all ranks of a round had
# been started, when the first new step of it was told, if steps are, when the first
# of them ended or was stopped, and when the run began and ended. Nobody writes down
# a last sign of life: so what ran is compared together with the detection, and alone
# only if no node was lost (--no-loss).
# A node that is cut off fences its workers by its own clock, and no server hears of
# it: the round is over when the others are told, which is after that lease, with
# what clocks may differ and a vote of the others.
# If two nodes are away at once, which a busy machine can do, the job cannot shrink:
# then leases are long, and while a server that took over waits for the end of one, it
# counts as waiting what the events of others count as work. So long both may differ.
import datetime
import json
import re
import sys

LONG_S = 2  # a lease is 1 s here, if it is not a long one
no_loss = sys.argv[1] == "--no-loss"
report, *files = sys.argv[2 if no_loss else 1 :]


def when(event):
    text = event["time"].replace("Z", "+00:00")
    return datetime.datetime.fromisoformat(text).timestamp()


events = [json.loads(line) for name in files for line in open(name)]
rounds = {}
for e in events:
    r = rounds.setdefault(e.get("round", 0),
                          {"started": [], "over": [], "died": [], "long": [],
                           "steps": []})
    if e["event"] == "sealed":
        r["world"] = e["world_size"]
    if e["event"] == "started":
        r["started"].append(when(e))
    if e["event"] == "new_step":
        r["steps"].append((when(e), e["step"]))
    if e["event"] in ("failed", "stopped", "leaving", "fenced", "done"):
        r["over"].append((e["event"], when(e)))
    if e["event"] == "exited" and e.get("exit_code") != 0:
        r["died"].append(when(e))
    lease = re.search(r"lease of the workers runs for ([0-9.]+) s", e.get("text") or "")
    if e["event"] == "disconnected" and lease and float(lease[1]) > LONG_S:
        r["long"].append((when(e), float(lease[1])))
rounds.pop(0, None)
begin = min(when(e) for e in events if e["event"] == "joined")
last = rounds[max(rounds)]
done = [t for kind, t in last["over"] if kind == "done"]
end = max(done) if done else max(
    when(e) for e in events if e["event"] == "exited")
# What a server had heard of steps when it sealed a round went with that round.
told = {e["round"]: int(e["spent"].split()[7]) - 1
        for e in events if e["event"] == "sealed" and e.get("spent")}
tells = any(r["steps"] for r in rounds.values())
ran = unsure = 0
for number, r in sorted(rounds.items()):
    if len(r["started"]) < r["world"]:
        continue  # it was over before
    # A node without a server cannot say that the round is over when its workers,
    # whose peers are dead, end by themselves.
    bad = ([t for kind, t in r["over"] if kind not in ("done", "fenced")]
           or [t for kind, t in r["over"] if kind == "fenced"] or r["died"])
    over = min(bad) if bad else end
    new = [at for at, step in r["steps"] if step > told.get(number, -1)]
    began = max([min(new)] + r["started"]) if new else max(r["started"])
    r["ran"] = max(0, over - began) if new or not tells else 0
    ran += r["ran"]
    unsure += max((min(min(bad) - at, s) for at, s in r["long"] if bad and at < min(bad)),
                  default=0)
wall = end - begin
told = json.load(open(report))["goodput"]
room = wall / 100 + 0.1 + unsure
sums = (("age", wall, told["wall_s"]),
        ("ran", ran, told["ran_s"] + (0 if no_loss else told["detect_s"])),
        ("not", wall - ran,
         told["waited_s"] + told["restart_s"]
         + (told["detect_s"] if no_loss else 0)))
print(f"goodput: {ran:.3f} of {wall:.3f} s by the events; told: {told}")
wrong = [s for s in sums if abs(s[1] - s[2]) > room]
parts = sum(told[p] for p in ("ran_s", "waited_s", "detect_s", "restart_s"))
if abs(parts - told["wall_s"]) > 0.004:  # four spans, cut to milliseconds
    wrong.append(("sum", told["wall_s"], parts))
for name, by_events, by_report in wrong:
    print(f"no: {name}: {by_events:.3f} s by the events, {by_report:.3f} s told")
for number, r in sorted(rounds.items()) if wrong else ():
    over = ", ".join(f"{kind} {t - begin:.3f}" for kind, t in sorted(
        r["over"] + [("died", t) for t in r["died"]], key=lambda o: o[1]))
    print(f"round {number}: ran {r.get('ran', 0):.3f} s, started until"
          f" {max(r['started'], default=begin) - begin:.3f}, steps"
          f" {[(round(at - begin, 3), step) for at, step in r['steps']]}: {over}")
sys.exit(len(wrong) > 0)
