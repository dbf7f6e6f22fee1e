"""What an episode of tests/chaos is: its jobs, and the faults that strike them. All
of it comes from the seed.

Limits, since what lies beyond them is not promised (the manual, "What may die"):
 - A launcher is killed only when at least three machines are in the job. Of an
   elastic job (2 MIN <= MAX) it has to be in one round, whole and undisturbed: so
   no majority of any round's voters dies. (episode.py, may_kill)
 - kill-most is the exception: half of a job and more are killed at once. The others
   may wait then, until an operator says that the dead are dead (ddpctl go-on), which
   the test does. (episode.py, lost_most)
 - A launcher that was killed is started again when the faults are over, and a lease
   after its death: before, it might be cut off from all living members, or be one
   launcher too many of a strict job.
 - Agent and guard are not stopped at once without their janitor.
"""

import dataclasses
import random

WINDOW_S = 3.0  # faults begin within it, and end half a second later or sooner
PORT = 29500


@dataclasses.dataclass
class Job:
    name: str
    machines: list
    least: int
    most: int
    nproc: int
    heartbeat: float
    places: list  # machine:port
    token: bool
    finish: float = None  # when its workers are told to end; None: after all faults

    def is_strict(self):
        return 2 * self.least > self.most

    def __str__(self):
        return (f"{self.name}: {len(self.machines)} nodes, "
                f"--nnodes={self.least}:{self.most}, {self.nproc} each, at "
                f"{','.join(self.places)}, heartbeat {self.heartbeat} s"
                f"{', with a token' if self.token else ''}"
                + (f", told to end at {self.finish:.2f} s" if self.finish else ""))


@dataclasses.dataclass
class Fault:
    at: float
    kind: str
    machine: str  # `leader`: the one that serves the rendezvous then
    seconds: float = 0.0  # until it is mended
    how: str = ""
    other: str = ""  # the other machine of a pair

    def __str__(self):
        return (f"{self.at:.2f} s: {self.kind} {self.machine}"
                f"{' ' + self.other if self.other else ''}"
                f"{' ' + self.how if self.how else ''}"
                f"{f' for {self.seconds:.2f} s' if self.seconds else ''}")


@dataclasses.dataclass
class Plan:
    seed: int
    launchers: int  # machines for them
    daemons: int
    jobs: list
    faults: list
    proxies: list  # machines behind one

    def machines(self):
        return [f"h{i}" for i in range(self.launchers)] + \
            [f"s{i}" for i in range(self.daemons)]

    def __str__(self):
        lines = [f"seed {self.seed}"] + [str(job) for job in self.jobs]
        if self.proxies:
            lines.append(f"behind a proxy: {' '.join(self.proxies)}")
        return "\n".join(lines + [str(fault) for fault in self.faults])


# -- the jobs ---------------------------------------------------------------------

def places(draw, kind, machines, port):
    at = {"embedded": machines[:1], "daemon": ["s0"], "daemons": ["s0", "s1"],
          "list": machines[:draw.choice([2, 3])], "mixed": ["s0", machines[0]]}
    return [f"{name}:{port}" for name in at[kind]]


def limits(draw, nodes):
    """--nnodes: elastic or strict, some with a spare."""
    most = nodes - 1 if nodes > 3 and draw.random() < 0.2 else nodes
    if draw.random() < 0.6:
        return draw.randint(1, most // 2), most
    # So few launchers of it that two groups of MIN cannot live at once.
    least = max(most // 2 + 1, nodes // 2 + 1)
    return draw.randint(least, most), most


def job(draw, number, kind, machines):
    least, most = limits(draw, len(machines))
    port = PORT + (number if kind in ("embedded", "list", "mixed") else 0)
    if kind == "mixed":  # the daemon is one for all
        port = PORT
    return Job(f"j{number}", machines, least, most,
               nproc=draw.choice([1, 1, 2]) if len(machines) < 6 else 1,
               heartbeat=draw.choice([0.5, 0.6, 0.8, 1.0]),
               places=places(draw, kind, machines, port),
               token=draw.random() < 0.4)


def jobs(draw, two):
    kind = draw.choice(["embedded", "embedded", "daemon", "daemons", "list",
                        "mixed"])
    count = 2 if two else draw.choice([3, 3, 3, 4, 4, 5, 5, 6, 7, 9])
    machines = [f"h{i}" for i in range(count)]
    all_jobs = [job(draw, 0, kind, machines)]
    if 2 < count < 6 and draw.random() < 0.3:
        beside = draw.sample(machines, draw.randint(3, count))
        other = draw.choice(["embedded", "daemon"] if kind in ("daemon", "daemons")
                            else ["embedded", "list"])
        all_jobs.append(job(draw, 1, other, beside))
        all_jobs[1].token = all_jobs[0].token  # a daemon has one
    for each in all_jobs:
        if draw.random() < 0.2:
            each.finish = draw.uniform(0.5, WINDOW_S)
    daemons = {place for each in all_jobs for place in each.places
               if place.startswith("s")}
    return count, len(daemons), all_jobs


# -- the faults ---------------------------------------------------------------------

KINDS = {  # how often
    "cut": 6, "isolate": 3, "pair": 2, "outage": 1, "reject": 3, "sockets": 3,
    "freeze": 3, "freeze-part": 3, "kill-part": 5, "kill-launcher": 2,
    "kill-machine": 2, "proxy": 3,
}
# Of one group a machine has one fault at a time: it is undone as a whole.
GROUPS = {"reject": "firewall", "freeze": "stop", "freeze-part": "stop",
          "proxy": "proxy"}
HOW = {
    "cut": ["in", "out", "in and out"],
    "pair": ["there", "there and back"],
    "reject": [f"{hook} reject with {answer}" for hook in ("input", "output")
               for answer in ("tcp reset", "icmpx type port-unreachable",
                              "icmpx type admin-prohibited")],
    "freeze-part": ["agent", "guard", "janitor", "server", "worker"],
    "kill-part": ["agent", "guard", "janitor", "server", "server", "server",
                  "worker", "worker", "worker"],
    "kill-launcher": ["guard last", "guard first", "agent last"],
    "kill-machine": ["at once", "one by one"],
    "proxy": ["KILL", "KILL", "USR1"],
}
AT_ONCE = {"sockets", "kill-part", "kill-launcher", "kill-machine"}
OF_MOST = ["at once", "one by one"]
OF_DAEMONS = ["cut", "isolate", "reject", "sockets", "freeze", "kill-daemon",
              "kill-daemon"]


def fault(draw, plan, kind, machines):
    machine = draw.choice(machines)
    if kind == "proxy":
        machine = draw.choice(plan.proxies)
    elif machines[0].startswith("h") and draw.random() < 0.35:
        machine = "leader"
    at = draw.uniform(0, WINDOW_S - 0.3)
    leases = draw.choice([draw.uniform(0.1, 0.9), draw.uniform(0.9, 1.6),
                          draw.uniform(1.5, 4.0)])
    seconds = min(leases * plan.jobs[0].heartbeat, WINDOW_S + 0.5 - at)
    how = draw.choice(HOW.get(kind, [""]))
    other = draw.choice([m for m in machines if m != machine]) \
        if kind == "pair" else ""
    return Fault(at, kind, "all" if kind == "outage" else machine,
                 0.0 if kind in AT_ONCE else seconds, how, other)


def faults(draw, plan):
    launchers = [f"h{i}" for i in range(plan.launchers)]
    daemons = [f"s{i}" for i in range(plan.daemons)]
    kinds = {kind: weight for kind, weight in KINDS.items()
             if kind != "proxy" or plan.proxies}
    if draw.random() < 0.4:  # as long as the job is well
        kind = draw.choice(["kill-part", "kill-launcher", "kill-machine"])
        first = fault(draw, plan, kind, launchers)
        first.at = 0.0
        first.how = draw.choice(["agent", "guard"]) if kind == "kill-part" \
            else first.how
        yield first
    for _ in range(draw.randint(2, 6)):
        if daemons and draw.random() < 0.2:
            yield fault(draw, plan, draw.choice(OF_DAEMONS), daemons)
        else:
            kind = draw.choices(list(kinds), list(kinds.values()))[0]
            yield fault(draw, plan, kind, launchers)


def strikes_most(draw, plan):
    """The first fault: a job is whole then."""
    share = 0.6 if plan.launchers == 2 else 0.15
    return len(plan.jobs) == 1 and plan.jobs[0].finish is None \
        and draw.random() < share


def draw_plan(seed):
    draw = random.Random(f"chaos {seed}")
    rare = random.Random(f"rare {seed}")
    launchers, daemons, all_jobs = jobs(draw, two=rare.random() < 0.1)
    plan = Plan(seed, launchers, daemons, all_jobs, [], [])
    if draw.random() < 0.4:
        # Connections of a machine with a daemon on its host do not go out.
        plan.proxies = sorted(draw.sample([f"h{i}" for i in range(launchers)],
                                          draw.randint(1, launchers - 1)))
    plan.faults = sorted(faults(draw, plan), key=lambda each: each.at)
    if strikes_most(rare, plan):
        plan.faults.insert(0, Fault(0.0, "kill-most", "leader",
                                    how=rare.choice(OF_MOST)))
    return plan
