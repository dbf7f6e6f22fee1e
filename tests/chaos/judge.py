"""What the beats of a job's workers (beats.c) say, and how its launchers ended. Pure:
the times of CLOCK_MONOTONIC and the numbers come in.

An overlap. A world is an (instance, round) of a job. A worker is alive from its first
beat to its last one. Two worlds overlap for as long as a worker of one and a worker of
the other are both alive. Left out are
 - beats of a machine that was frozen as a whole, guard and all, for THAWED_US from
   when it went on: the manual says that such a host runs some milliseconds before
   its guard kills;
 - overlaps no longer than LATE_US + 3 times the longest time for which a process of
   this machine that could run did not (the watch's gap): who is killed in time has
   died that much later.

Split ends. Launchers of a job that were in its last round and were not killed end with
0, or all of them with something else; and since nobody told the job to end before its
workers did, with something else none may end: the job is lost. (A launcher that was cut
off, and whose job has ended meanwhile without it, finds nobody any more and gives up.)
"""

import dataclasses

BEAT_US = 20000
THAWED_US = 100000
LATE_US = 10000


@dataclasses.dataclass
class Worker:
    machine: str
    world: tuple  # instance, round
    rank: int
    nodes: int  # in the world
    beats: list  # microseconds


def counted(worker, thaws):
    """Its beats, but for those just after a thaw of its machine."""
    of_machine = [at for machine, at in thaws if machine == worker.machine]
    return [beat for beat in worker.beats
            if not any(at <= beat < at + THAWED_US for at in of_machine)]


def late_us(watch):
    """How late a kill may come: `watch` are the beats of the watch."""
    gaps = (b - a - BEAT_US for a, b in zip(watch, watch[1:]))
    return LATE_US + 3 * max(gaps, default=0)


def overlaps(workers, thaws, allowed_us):
    """A sentence for each two worlds that overlap for longer than that."""
    found = {}
    alive = sorted(((beats[0], beats[-1], worker) for worker in workers
                    if (beats := counted(worker, thaws))),
                   key=lambda each: each[0])
    for i, (began, ended, worker) in enumerate(alive):
        for first, last, earlier in alive[:i]:  # no later than this one
            for_us = min(ended, last) - began
            key = (earlier.world, worker.world)
            if worker.world != earlier.world and for_us > allowed_us \
                    and for_us > found.get(key, (0, None, None))[0]:
                found[key] = (for_us, earlier, worker)
    return [f"for {for_us / 1000:.0f} ms, where {allowed_us / 1000:.0f} are allowed: "
            f"{told(one)} and {told(other)}" for for_us, one, other in found.values()]


def told(worker):
    instance, number = worker.world
    return f"rank {worker.rank} of round {number} ({instance[:6]}) on {worker.machine}"


def newest(workers):
    """The world whose first worker came last; None: there was none."""
    began = {}
    for worker in workers:
        if worker.beats:
            first = worker.beats[0]
            began[worker.world] = min(first, began.get(worker.world, first))
    return max(began, key=began.get, default=None)


def running(workers, since_us):
    """Workers of that world with a beat since then."""
    world = newest(workers)
    return [w for w in workers
            if w.world == world and w.beats and w.beats[-1] >= since_us]


def ends(statuses):
    """`statuses`: of each launcher of the last round that was not killed. None, or
    (verdict, sentence)."""
    said = ", ".join(f"{name} {status}" for name, status in sorted(statuses.items()))
    bad = [status for status in statuses.values() if status != 0]
    if not bad:
        return None
    verdict = "split" if len(bad) < len(statuses) else "lost"
    return verdict, f"the launchers ended with {said}"
