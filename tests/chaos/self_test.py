"""Does tests/chaos see what goes wrong? Each case plays an episode without a seed in
which something is made wrong: by the test (two runs that it takes for one job, a
machine that stays cut off, a process that somebody left), or in the product, by a
clock that nearly stands on one machine, so that its leases never end."""

import os
import signal
import subprocess

import episode
import judge
from plan import Fault, Job, Plan

# A clock that nearly stands, once the file $SLOW is there: leases are counted by
# CLOCK_BOOTTIME.
CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at)
{
    static long long from_ns;
    int rc = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock != CLOCK_BOOTTIME ||
        (from_ns == 0 && access(getenv("SLOW"), F_OK) != 0))
        return rc;
    long long ns = at->tv_sec * 1000000000LL + at->tv_nsec;
    if (from_ns == 0)
        from_ns = ns;
    ns = from_ns + (ns - from_ns) / 100;
    at->tv_sec = ns / 1000000000;
    at->tv_nsec = ns % 1000000000;
    return rc;
}
"""


def plan_of(*faults, nodes=3, least=1):
    machines = [f"h{i}" for i in range(nodes)]
    job = Job("j0", machines, least, nodes, 1, 0.5, ["h0:29500"], False)
    return Plan(0, nodes, 0, [job], list(faults), [])


class Twins(episode.Episode):
    """The last machine runs a job of its own under the name of the other, which
    ends with 3."""

    def start_launcher(self, job, machine, options=(), variables=None):
        twin = machine.name == "h2"
        super().start_launcher(
            job, machine,
            ["--rdzv_id=twin", f"--rdzv_endpoint={machine.name}:29600",
             "--nnodes=1:3", "--max_restarts=0"] if twin else [],
            {"CHAOS_EXIT": "3"} if twin else {})

    def is_whole(self, job):
        return len({worker.machine for worker in self.beats.of(job)}) == 3

    def comes_back(self, job):
        pass

    def asked(self, job):
        return {launcher.name for launcher in self.launchers[job.name]}


class StaysCut(episode.Episode):
    def mend(self, fault, machine):
        self.log("it stays so")

    def with_room(self, seconds):
        return min(super().with_room(seconds), 6.0)


class Leaves(episode.Episode):
    """Somebody's process is left on a machine."""

    def leave(self):
        self.spawn(self.network.machines["h1"], "left",
                   ["setsid", "-f", "sleep", "60"], self.environment({})).wait()
        super().leave()


class SlowClock(episode.Episode):
    def slow(self):
        return os.path.join(self.folder, "slow")

    def start_launcher(self, job, machine, options=(), variables=None):
        slow = machine.name == "h2"
        super().start_launcher(
            job, machine, options,
            {"LD_PRELOAD": self.programs["clock.so"], "SLOW": self.slow()}
            if slow else {})

    def strike(self, fault):
        open(self.slow(), "w").close()
        super().strike(fault)

    def comes_back(self, job):
        """Nor does it, with that clock."""

    def ends(self, job):
        pass


class Kills(episode.Episode):
    """A launcher is killed by somebody else than the test."""

    def storm(self):
        super().storm()
        launcher = self.launchers["j0"][2]
        launcher.process.send_signal(signal.SIGKILL)
        launcher.process.wait()

    def asked(self, job):
        return {launcher.name for launcher in self.launchers[job.name]}


class NoOrder(episode.Episode):
    """No operator comes."""

    def go_on(self, job):
        pass


MOST = Fault(0.1, "kill-most", "leader", how="at once")
CASES = [
    ("nothing is wrong", episode.Episode, plan_of(), set()),
    ("most are killed", episode.Episode, plan_of(MOST), set()),
    ("most are killed, and no operator comes", NoOrder, plan_of(MOST), {"stuck"}),
    ("two runs as one job", Twins, plan_of(), {"overlap", "split"}),
    ("a machine that stays cut off", StaysCut,
     plan_of(Fault(0.1, "isolate", "h1", 2.0)), {"stuck"}),
    ("a process is left", Leaves, plan_of(), {"left"}),
    ("a clock that nearly stands", SlowClock,
     plan_of(Fault(0.1, "isolate", "h2", 2.5)), {"overlap"}),
    ("one ends with something else", Kills, plan_of(), {"split"}),
]


def worker(machine, number, *beats):
    return judge.Worker(machine, ("i", number), 0, 1, list(beats))


def judges():
    """The judge, by numbers. A sentence for what is wrong."""
    old, new = worker("a", 1, 0, 500000), worker("b", 2, 400000, 900000)
    thawed = worker("a", 1, 0, 100000, 750000, 850000)
    cases = [
        ("beside", [old, new], [], 0, 1),
        ("the other way round", [new, old], [], 0, 1),
        ("allowed", [old, new], [], 100000, 0),
        ("one after the other", [worker("a", 1, 0, 300000), new], [], 0, 0),
        ("within the other", [worker("a", 1, 0, 990000), new], [], 0, 1),
        ("of one round", [old, worker("b", 1, 400000, 900000)], [], 0, 0),
        ("of an older round that comes later",
         [new, worker("a", 1, 500000, 800000)], [], 0, 1),
        ("just after a thaw", [worker("a", 1, 0, 100000, 750000), new],
         [("a", 700000)], 0, 0),
        ("long after a thaw", [thawed, new], [("a", 700000)], 0, 1),
        ("after another one's thaw", [thawed, new], [("c", 700000)], 0, 1),
    ]
    wrong = [what for what, workers, thaws, allowed, want in cases
             if len(judge.overlaps(workers, thaws, allowed)) != want]
    ends = [({"a": 0, "b": 0}, None), ({"a": 0, "b": 72}, "split"),
            ({"a": 75, "b": 72}, "lost"), ({}, None)]
    wrong += [f"ends {statuses}" for statuses, want in ends
              if (judge.ends(statuses) or (None,))[0] != want]
    return wrong


def clock_library(work):
    source = os.path.join(work, "clock.c")
    with open(source, "w") as file:
        file.write(CLOCK)
    library = os.path.join(work, "clock.so")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source],
                   check=True)
    return library


def run(play):
    """The status: 0 if each is seen, and nothing else is."""
    failed = judges()
    for what in failed:
        print(f"chaos: judge: {what}: wrong")
    play.programs["clock.so"] = clock_library(play.work)
    for i, (what, kind, drawn, want) in enumerate(CASES):
        drawn.seed = i
        one, folder = play.play(drawn, kind)
        seen = {verdict for verdict, _ in one.verdicts}
        if seen == want:
            continue
        failed.append(what)
        play.tell(one, folder)
        print(f"chaos: {what}: saw {seen or 'nothing'}, not {want or 'nothing'}")
    print(f"chaos: {len(CASES)} episodes that are wrong on purpose, "
          f"{len(failed)} not seen as such")
    return 1 if failed else 0
