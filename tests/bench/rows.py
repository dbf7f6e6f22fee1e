"""The rows of the table: which trial is played, by whom, and which of its
figures is shown. All targets are here, those of the parts with tables of their
own too.
"""

import dataclasses

import jobs
import launchers
from common import not_in

# -- targets of the rendezvous and the store ----------------------------------

JOIN_MS = 1000  # 10,000 agents, from the first connect to the last world
LOST_P99_MS = 150  # one of 10,000 is lost: the others told
MOVE_MS = 1000  # the server of 10,000 is killed: all have a lease at the next
# As near as that to a bare server is met, too. With a token most of the time is
# OpenSSL's, which both have.
TIMES_FLOOR, TIMES_FLOOR_TOKEN = 1.4, 1.2
# From 1,000 to 10,000 agents: times the cost, for each time as many agents.
GROWTH = 1.2
# Of the daemon with 10,000 agents; an SSL object is 14 KB.
MEMORY_MIB, MEMORY_TOKEN_MIB = 64, 250
# Of 10 viewers of 10,000 agents that change all the time: documents a second,
# percent of a core, and by how much later a beat may be answered (ms).
VIEWERS_DOCS, VIEWERS_CORE, VIEWERS_LATER_MS = 1, 2, 5
# The store: at least so many times torch's and Redis's operations a second, at no
# more than so many times torch's CPU for each; the newest torch with its default
# server, in the same run. The others' time for a storm counts in the same way.
OPS_OF_PEERS, CPU_OF_TORCH, STORM_OF_TORCH = 1, 1, 1

# Figures are in us where the unit is ms or s, in KiB for MiB, in ns for us, in
# 1/s for 1000/s.
PER_UNIT = {"ms": 1000, "s": 1e6, "MiB": 1024, "us": 1000, "1000/s": 1000}
PER_UNIT[f"of {jobs.JOBS}"] = 1


def in_unit(number, unit):
    """What is only counted stays an int."""
    return number / PER_UNIT[unit] if PER_UNIT[unit] != 1 else number


@dataclasses.dataclass
class Row:
    name: str
    title: str
    unit: str
    target: float  # None: no number was promised
    times_floor: float  # near enough to the floor is met, too; or None
    late: str  # what is said of what did not happen
    peers: dict  # who: how many times its figure ours has to be
    numbers: dict  # contender: list in `unit`, ours first; None: failed

    @property
    def more_is_better(self):
        return self.unit.endswith("/s") or self.unit.startswith("of ")


ROWS = {}  # name: function of a Bench that returns its Row


def row(
    name,
    unit,
    target,
    title,
    measure,
    times_floor=None,
    limit_s=60,
    peers=None,
    late=None,
):
    """measure: of a Bench returns {contender: figures}; late: what is said of
    what did not happen, else that it did not within limit_s."""
    late = late or not_in(limit_s)

    def make(bench):
        numbers = {
            c: values and [in_unit(v, unit) for v in values]
            for c, values in measure(bench).items()
        }
        return Row(
            name, title, unit, target, times_floor, late, peers or {}, numbers
        )

    ROWS[name] = make


# -- launchers ----------------------------------------------------------------

# Name, unit, target, what is played (launchers.py), its figure, by whom (a
# method of Who), title. 800 MB at 500 MB/s are 1.6 s.
LAUNCHERS = """
start1   ms  -    LIFE1    start_us  everybody  start to the worker's main, 1 worker
start4   ms  5    LIFE4    start_us  everybody  start to the last worker's main, 4 workers
start16  ms  -    LIFE16   start_us  everybody  start to the last worker's main, 16 workers
start64  ms  45   LIFE64   start_us  everybody  start to the last worker's main, 64 workers
exit4    ms  2    LIFE4    exit_us   everybody  4 workers' end to the launcher's exit
exit64   ms  -    LIFE64   exit_us   everybody  64 workers' end to the launcher's exit
memory   MiB 5    LIFE4    pss_kb    dynamic    memory (PSS) of the idle launcher of 4 workers
cpu      ms  10   LIFE4    cpu_us    everybody  CPU of a launch of 4 workers, with the workers' own
restart  ms  20   RESTART  again_us  elastic    a worker killed: all 4 run again, one node
restart2 ms  50   RESTART2 again_us  elastic    a worker killed: all 4 run again, two nodes
node     ms  100  NODE     again_us  newest     a node killed, 1:2: the other's workers run again
silent   ms  400  SILENT   again_us  ours       a node silent, heartbeat_timeout 0.3: the same
silent5  s   5.1  SILENT5  again_us  newest     a node silent, heartbeat_timeout 5 (default): the same
host2    ms  200  HOST2    again_us  newest     the serving host killed, 1:2: the other's workers run again
host3    ms  200  HOST3    again_us  newest     the serving host killed, 2:3: the others' workers run again
host5    ms  200  HOST5    again_us  newest     the serving host killed, 3:5: the others' workers run again
mute3    s   3    MUTE3    again_us  newest     the serving host silent, 2:3, heartbeat_timeout 2: the same
grow     ms  200  GROW     grown_us  elastic    a third node starts, 2:3: all three nodes' workers run
orphans  ms  100  ORPHANS  gone_us   everybody  the launcher killed: nothing is left
redirect s   1.6  REDIRECT took_us   elastic    4 x 200 MB of lines, redirected into log files
tee      s   -    TEE      took_us   elastic    4 x 200 MB of lines, tee'd into files and a console
tee_cpu  s   -    TEE      cpu_us    elastic    CPU of that, with the workers' own
"""


def on_stage(trial, figure, who):
    def measure(bench):
        return bench.stage.figures(trial, getattr(bench.who, who)(), figure)

    return measure


for line in LAUNCHERS.strip().splitlines():
    name, unit, target, played, figure, who, title = line.split(None, 6)
    trial = getattr(launchers, played)
    measure = on_stage(trial, figure, who)
    goal = None if target == "-" else float(target)
    late = "does not come back" if trial.play in ("host", "mute") else None
    row(name, unit, goal, title, measure, limit_s=trial.limit_s, late=late)


# -- jobs ---------------------------------------------------------------------

row(
    "survive",
    f"of {jobs.JOBS}",
    jobs.JOBS,
    "PyTorch DDP jobs that survive kill -9 of a worker",
    lambda bench: bench.jobs.survivors(),
)


# -- rendezvous ---------------------------------------------------------------


def agents(n, figure, with_torch=False):
    def measure(bench):
        torch = bench.rendezvous.torch if with_torch else ()
        return bench.rendezvous.figures(n, figure, torch)

    return measure


JOINED = "agents: first connect to last rank"
LOST = "one of 10,000 lost: the others told, p99"
MOVED = "server of 10,000 agents killed: all have a lease at the next"
MEMORY = "memory (PSS) of the daemon with 10,000 agents"
row("rdzv10", "ms", None, f"10 {JOINED}", agents(10, "join_us", True))
row("rdzv100", "ms", None, f"100 {JOINED}", agents(100, "join_us", True))
row("rdzv1000", "ms", None, f"1,000 {JOINED}", agents(1000, "join_us"))
for name, unit, target, title, figure, times_floor in (
    ("rdzv10000", "ms", JOIN_MS, f"10,000 {JOINED}", "join_us", TIMES_FLOOR),
    ("lost10000", "ms", LOST_P99_MS, LOST, "told_p99_us", TIMES_FLOOR),
    ("memory10000", "MiB", MEMORY_MIB, MEMORY, "pss_kb", None),
):
    row(name, unit, target, title, agents(10000, figure), times_floor)
row(
    "move10000",
    "ms",
    MOVE_MS,
    MOVED,
    lambda bench: bench.rendezvous.moves(10000, "moved_us"),
    TIMES_FLOOR,
)


# -- store --------------------------------------------------------------------


def store(trial, figure):
    return lambda bench: bench.store.figures(trial, figure)


GET512 = ("rate", "get", 512, 64)
OPS = {"torch": OPS_OF_PEERS, "Redis": OPS_OF_PEERS}
STORE_TARGETS = {
    "1000/s": OPS,
    "us": {"torch": CPU_OF_TORCH},
    "ms": {"torch": STORM_OF_TORCH},
}
for name, unit, title, what in (
    ("get8", "1000/s", "get of 64 B on 8 connections", ("rate", "get", 8, 64)),
    ("add64", "1000/s", "add on 64 connections", ("rate", "add", 64, 64)),
    ("get512", "1000/s", "get of 64 B on 512 connections", GET512),
    ("get512_cpu", "us", "CPU of the server for each of these", GET512),
    ("storm", "ms", "2,048 clients add and wait, all woken", ("storm", 2048)),
):
    figure = {"1000/s": "ops", "us": "cpu_ns", "ms": "took_us"}[unit]
    peers = STORE_TARGETS[unit]
    measure = store(what, figure)
    row(name, unit, None, f"store: {title}", measure, peers=peers)

# Rows that a part has as well, with more beside them.
ALSO_IN = {
    "rdzv": ("rdzv1000", "rdzv10000", "lost10000", "memory10000", "move10000"),
    "store": ("get8", "add64", "get512", "get512_cpu", "storm"),
}
