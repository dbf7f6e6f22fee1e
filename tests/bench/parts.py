"""Rows of the one table that are measured by the parts with tables of their
own: the rendezvous (rdzv/run) and the c10d store (store/run).
"""

import contextlib
import dataclasses
import pathlib
import tempfile
import types

from common import (
    LATE,
    OLD_PYTHON,
    Failed,
    load_part,
    new_python,
    progress,
    torch_version,
)

rdzv = load_part("rdzv")
store = load_part("store")


@dataclasses.dataclass(frozen=True)
class Server:
    """A contender of these rows; column: of the Markdown table."""

    label: str
    column: str


class Rendezvous:
    """Storms of agents: they join, one is lost, all go on."""

    OURS = Server("ddprdzvd", "ours")
    FLOOR = Server("bare server", "floor")

    def __init__(self, build, quick):
        self.build = build
        self.runs = 1 if quick else 5
        self.torch_runs = 1 if quick else 3
        self.played = {}  # agents: {contender: [{figure: number}, ...]}
        self.failures = {}  # (what, contender): why
        self.torch = torch_pythons()

    def figures(self, agents, figure, joins=()):
        """joins: contenders by torch's handler, which only joins."""
        if agents not in self.played:
            pairs = rdzv.storms(self.build, agents, self.runs)
            both = (self.OURS, self.FLOOR)
            self.played[agents] = dict(zip(both, zip(*pairs)))
        return {
            c: [run[figure] for run in runs]
            for c, runs in self.played[agents].items()
        } | {c: self.torch_joins(c, agents) for c in joins}

    def moves(self, agents, figure):
        """The server is killed, and all go to the next one."""
        pairs = rdzv.moves(self.build, agents, self.runs)
        return {
            c: [run[figure] for run in runs]
            for c, runs in zip((self.OURS, self.FLOOR), zip(*pairs))
        }

    def torch_joins(self, contender, agents):
        """[microseconds, ...], or None: it failed."""
        progress(f"{contender.label}, {agents} agents")
        try:
            took_s = [
                rdzv.play_torch(self.torch[contender], agents)
                for _ in range(self.torch_runs)
            ]
        except Failed as e:
            self.failures["rendezvous", contender] = str(e)
            return None
        return [LATE if s is None else 1e6 * s for s in took_s]


def torch_pythons():
    """{contender: python} of the torches that are here."""
    found = {}
    for python, column in ((OLD_PYTHON, "fast"), (new_python(), "new")):
        version = python and torch_version(python)
        if version:
            short = ".".join(version.split(".")[:2])
            found[Server(f"torch {short}", column)] = python
    return found


def store_label(contender):
    if contender.label == "floor":
        return "bare server"
    if not contender.is_torch:
        return contender.label
    version = contender.label.removeprefix("torch ").removesuffix(" uv")
    return f"torch {version}"


class Store:
    """Servers that are started with the first figure that is asked of them."""

    COLUMNS = {"ddprun": "ours", "ddprdzvd": "ours", "floor": "floor", "Redis": "peer"}

    def __init__(self, build, quick):
        self.args = types.SimpleNamespace(
            build=build,
            runs=1 if quick else 5,
            ms=200 if quick else 600,
            python=OLD_PYTHON,
            torch=new_python(),
        )
        self.stack = contextlib.ExitStack()
        self.players = {}  # contender here: contender there
        self.played = {}  # trial: {contender there: [{figure: number}, ...]}

    def start(self):
        players = {}
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        for c in store.contenders(self.args, pathlib.Path(folder)):
            if c.label.endswith(" classic"):
                continue  # not what torch uses by default
            self.stack.enter_context(c.running())
            torch = "fast" if c.proto == "old" else "new"
            column = self.COLUMNS.get(c.label, torch)
            here = Server(store_label(c), column)
            players[here] = c
        self.players = players

    def close(self):
        self.stack.close()

    def figures(self, trial, figure):
        if not self.players:
            self.start()
        # A storm waits for keys: Redis and the floor have no such thing.
        can = {
            here: c
            for here, c in self.players.items()
            if trial[0] == "rate" or c.proto != "redis" and not c.is_floor
        }
        if trial not in self.played:
            title = " ".join(map(str, trial))
            more = [self.args.ms] if trial[0] == "rate" else []
            played = store.Trials(
                self.args, list(can.values()), title, *trial, *more
            )
            self.played[trial] = played.all
        runs = self.played[trial]
        return {here: [r[figure] for r in runs[c]] for here, c in can.items()}
