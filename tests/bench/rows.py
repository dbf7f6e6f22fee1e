"""The rows of the table: each is a function that says which trial is played,
and which of its figures is shown.
"""

import dataclasses

from launchers import (
    GROW,
    LIFE1,
    LIFE4,
    LIFE16,
    LIFE64,
    NODE,
    ORPHANS,
    REDIRECT,
    RESTART,
    RESTART2,
    SILENT,
    SILENT5,
    TEE,
)

PER_UNIT = {"ms": 1000, "s": 1e6, "MiB": 1024, "us": 1000, "1000/s": 1000}


@dataclasses.dataclass
class Row:
    name: str
    title: str
    unit: str
    target: float  # None: no number was promised
    times_floor: float  # near enough to the floor is met, too; or None
    limit_s: float  # what did not happen did not happen within that
    numbers: dict  # contender: list in `unit`, ours first; None: failed

    @property
    def more_is_better(self):
        return self.unit.endswith("/s")


ROWS = {}


def row(title, unit, target=None, times_floor=None, limit_s=20):
    """Registers a function that returns {contender: numbers}: in us where the
    unit is ms or s, ns for us, KiB for MiB, /s for 1000/s."""

    def register(measure):
        name = measure.__name__

        def make(bench):
            numbers = {
                c: values and [v / PER_UNIT[unit] for v in values]
                for c, values in measure(bench).items()
            }
            return Row(name, title, unit, target, times_floor, limit_s, numbers)

        ROWS[name] = make
        return measure

    return register


# -- launchers ----------------------------------------------------------------


@row("start to the worker's main, 1 worker", "ms")
def start1(bench):
    return bench.stage.figures(LIFE1, bench.who.everybody(), "start_us")


@row("start to the last worker's main, 4 workers", "ms", target=5)
def start4(bench):
    return bench.stage.figures(LIFE4, bench.who.everybody(), "start_us")


@row("start to the last worker's main, 16 workers", "ms")
def start16(bench):
    return bench.stage.figures(LIFE16, bench.who.everybody(), "start_us")


@row("start to the last worker's main, 64 workers", "ms", target=45)
def start64(bench):
    return bench.stage.figures(LIFE64, bench.who.everybody(), "start_us")


@row("4 workers' end to the launcher's exit", "ms", target=2)
def exit4(bench):
    return bench.stage.figures(LIFE4, bench.who.everybody(), "exit_us")


@row("64 workers' end to the launcher's exit", "ms")
def exit64(bench):
    return bench.stage.figures(LIFE64, bench.who.everybody(), "exit_us")


@row("memory (PSS) of the idle launcher of 4 workers", "MiB", target=5)
def memory(bench):
    # The loop is left out: it is linked statically, to be the floor in time.
    who = bench.who
    contenders = [who.ddprun, *who.hydra, *who.torchrun]
    return bench.stage.figures(LIFE4, contenders, "pss_kb")


@row("CPU of a launch of 4 workers, with the workers' own", "ms", target=10)
def cpu(bench):
    return bench.stage.figures(LIFE4, bench.who.everybody(), "cpu_us")


@row("a worker killed: all 4 run again, one node", "ms", target=20)
def restart(bench):
    return bench.stage.figures(RESTART, bench.who.elastic(), "again_us")


@row("a worker killed: all 4 run again, two nodes", "ms", target=50)
def restart2(bench):
    return bench.stage.figures(RESTART2, bench.who.elastic(), "again_us")


@row(
    "a node killed, 1:2: the other's workers run again",
    "ms",
    target=100,
    limit_s=NODE.limit_s,
)
def node(bench):
    return bench.stage.figures(NODE, bench.who.elastic_fast(), "again_us")


@row(
    "a node silent, heartbeat_timeout 0.3: the same",
    "ms",
    target=400,
    limit_s=SILENT.limit_s,
)
def silent(bench):
    # torchrun has no such thing: the next row shows what it does.
    return bench.stage.figures(SILENT, [bench.who.ddprun], "again_us")


@row(
    "a node silent, heartbeat_timeout 5 (default): the same",
    "s",
    target=5.1,
    limit_s=SILENT5.limit_s,
)
def silent5(bench):
    return bench.stage.figures(SILENT5, bench.who.elastic_fast(), "again_us")


@row(
    "a third node starts, 2:3: all three nodes' workers run",
    "ms",
    target=200,
    limit_s=GROW.limit_s,
)
def grow(bench):
    return bench.stage.figures(GROW, bench.who.elastic_fast(), "grown_us")


@row(
    "the launcher killed: nothing is left",
    "ms",
    target=100,
    limit_s=ORPHANS.limit_s,
)
def orphans(bench):
    slow = (t for t in bench.who.torchrun if t.poll_s >= 1)
    contenders = [c for c in bench.who.everybody() if c not in slow]
    return bench.stage.figures(ORPHANS, contenders, "gone_us")


# 800 MB: 500 MB/s are 1.6 s.
@row("4 x 200 MB of lines, redirected into log files", "s", target=1.6)
def redirect(bench):
    return bench.stage.figures(REDIRECT, bench.who.elastic_fast(), "took_us")


@row("4 x 200 MB of lines, tee'd into files and a console", "s")
def tee(bench):
    return bench.stage.figures(TEE, bench.who.elastic_fast(), "took_us")


@row("CPU of that, with the workers' own", "s")
def tee_cpu(bench):
    return bench.stage.figures(TEE, bench.who.elastic_fast(), "cpu_us")


# -- rendezvous ---------------------------------------------------------------


@row("10 agents: first connect to last rank", "ms", limit_s=60)
def rdzv10(bench):
    torch = bench.rendezvous.torch
    return bench.rendezvous.figures(10, "join_us", torch)


@row("100 agents: first connect to last rank", "ms", limit_s=60)
def rdzv100(bench):
    torch = bench.rendezvous.torch
    return bench.rendezvous.figures(100, "join_us", torch)


@row("1,000 agents: first connect to last rank", "ms")
def rdzv1000(bench):
    return bench.rendezvous.figures(1000, "join_us")


@row(
    "10,000 agents: first connect to last rank",
    "ms",
    target=1000,
    times_floor=1.4,
)
def rdzv10000(bench):
    return bench.rendezvous.figures(10000, "join_us")


@row(
    "one of 10,000 lost: the others told, p99",
    "ms",
    target=150,
    times_floor=1.4,
)
def lost10000(bench):
    return bench.rendezvous.figures(10000, "told_p99_us")


@row("memory (PSS) of the daemon with 10,000 agents", "MiB", target=64)
def memory10000(bench):
    return bench.rendezvous.figures(10000, "pss_kb")


# -- store --------------------------------------------------------------------

GET8 = ("rate", "get", 8, 64)
ADD64 = ("rate", "add", 64, 64)
GET512 = ("rate", "get", 512, 64)


@row("store: get of 64 B on 8 connections", "1000/s")
def get8(bench):
    return bench.store.figures(GET8, "ops")


@row("store: add on 64 connections", "1000/s")
def add64(bench):
    return bench.store.figures(ADD64, "ops")


@row("store: get of 64 B on 512 connections", "1000/s")
def get512(bench):
    return bench.store.figures(GET512, "ops")


@row("store: CPU of the server for each of these", "us")
def get512_cpu(bench):
    return bench.store.figures(GET512, "cpu_ns")


@row("store: 2,048 clients add and wait, all woken", "ms")
def storm(bench):
    return bench.store.figures(("storm", 2048), "took_us")
