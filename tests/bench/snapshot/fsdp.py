"""A rank of ./sharded, which starts it: FOLDER LAYERS DIMS. A save is made when the
one before has ended: the call's time, and what the call adds to its step and the
next one, each of the slower rank. The contenders take turns.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import sys
import time
import warnings
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import ddprun

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from common import Failed  # noqa: E402
from gpt2 import Trainer, gpt2, local, timed  # noqa: E402

try:
    import replicas
except ImportError:
    replicas = None  # nvidia-resiliency-ext is not here

TURNS, SAVES = int(os.environ.get("ROUNDS", 2)), 3
MIRROR_S, MIRROR_RATE = 0.5, 150e6  # a mirror has arrived after that, and bytes a second
OURS, OVERLAP = "ddprun.snapshot", "ddprun.snapshot, overlap"
ASYNC, STAGED = "async_save", "async_save, its stager in the background"
REPLICAS = "nvidia-resiliency-ext, two replicas"  # on two nodes only
# A figure of ours, as a multiple of theirs: the goals on one node and on two.
RATIOS = (
    ("call", OURS, ASYNC, 0.3, 0.5),
    ("call", OVERLAP, ASYNC, 0.05, 0.1),
    ("with the next step", OVERLAP, ASYNC, 0.2, 0.25),
    ("with the next step", OVERLAP, STAGED, 0.3, 0.4),
    ("call", OURS, REPLICAS, None, 0.35),
)
# A step that sleeps so many times as long as a save's copy takes; steps in a row.
STEP_GOAL, PACE, STEPS = 1.02, 5, 4


class Rank:
    def __init__(self, layers: int, dims: int) -> None:
        dist.init_process_group("gloo")
        self.group = dist.new_group()  # async_save's thread has the other one
        self.one_node = os.environ["GROUP_WORLD_SIZE"] == "1"
        self.first = dist.get_rank() == 0
        model = gpt2(layers, dims)
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        fully_shard(model, mesh=mesh)
        self.trainer = Trainer(model)
        self.trainer.step()  # Adam has its state now
        self.plain: "list[float]" = []  # steps while nothing is under way
        self.figures: "dict[str, dict[str, list[float]]]" = {}
        self.mirrored = self.sent = self.skipped = 0
        self.bytes = 3 * sum(local(p).nbytes for p in model.parameters())

    def say(self, *words: object) -> None:
        if self.first:
            print(*words, flush=True)

    def together(self, call: "Callable[[], Any]") -> float:
        """Seconds of the slower rank."""
        dist.barrier(group=self.group)
        took = torch.tensor([timed(call)], dtype=torch.float64)
        dist.all_reduce(took, dist.ReduceOp.MAX, group=self.group)
        return took.item()

    def measure(self, name: str, save: "Callable[[], Any]", wait: "Callable[[], Any]") -> None:
        """`wait`: until nothing of a save is under way. The first one makes room."""
        figures = self.figures.setdefault(name, {"call": [], "with the next step": []})
        for i in range(1 + SAVES):
            self.plain.append(self.together(self.trainer.step))
            call = self.together(save)
            both = call + self.together(self.trainer.step)
            wait()
            if i > 0:
                figures["call"].append(call)
                figures["with the next step"].append(both)

    def ours(self, overlap: bool) -> None:
        state = ddprun.snapshot(self.trainer.model, self.trainer.optimizer, overlap=overlap)
        mirrored = {state.mirrored}

        def save() -> None:
            state.save(state.step + 1)
            mirrored.add(state.mirrored)

        def wait() -> None:
            state.flush()
            if not self.one_node:
                time.sleep(MIRROR_S + self.bytes / MIRROR_RATE)

        self.measure(OVERLAP if overlap else OURS, save, wait)
        if state.no_memory:
            raise Failed(f"not in memory: {state.no_memory}")
        # The last two cannot be known yet: a save is sent when the next one has
        # found that it is whole, and the one after that finds that it has arrived.
        self.mirrored += len(mirrored) - 1
        self.sent += SAVES - 1
        self.skipped += state.skipped
        if overlap:
            self.pace(save, wait)
        state.close()

    def pace(self, save: "Callable[[], Any]", wait: "Callable[[], Any]") -> None:
        """Steps that sleep, as if a GPU computed, with a save each and without."""
        sleeps = PACE * statistics.median(self.figures[OURS]["call"])
        took = self.figures.setdefault("step", {"with": [], "without": []})

        def steps(end: "Callable[[], Any]") -> None:
            for _ in range(STEPS):
                time.sleep(sleeps)
                self.trainer.step()
                end()

        took["with"].append(self.together(lambda: steps(save)) / STEPS)
        wait()
        took["without"].append(self.together(lambda: steps(lambda: None)) / STEPS)

    def async_save(self, folder: str, stager: Any = None) -> None:
        under_way: "list[Any]" = []

        def save() -> None:
            under_way.append(dcp.async_save(self.trainer.state(), checkpoint_id=folder, async_stager=stager))

        def staged() -> None:
            if under_way and hasattr(under_way[0], "staging_completion"):
                under_way[0].staging_completion.result()

        def wait() -> None:
            found = under_way.pop()
            getattr(found, "upload_completion", found).result()
            dist.barrier(group=self.group)
            if self.first:
                shutil.rmtree(folder)
            dist.barrier(group=self.group)

        self.trainer.settled = staged
        self.measure(ASYNC if stager is None else STAGED, save, wait)
        self.trainer.settled = lambda: None

    def replicas(self, folder: str) -> None:
        """The file is written behind the next step."""
        kept = replicas.Replicas(f"{folder}.replicas")
        optimizer = self.trainer.optimizer

        def save() -> None:
            tensors = [local(p).detach() for p in self.trainer.model.parameters()]
            kept.save(tensors + [local(x) for state in optimizer.state.values() for x in state.values()])

        self.measure(REPLICAS, save, kept.wait)
        kept.remove()

    def median(self, name: str, what: str) -> float:
        """Of what a save adds: a step by itself is taken off."""
        figure = statistics.median(self.figures[name][what])
        return figure - statistics.median(self.plain) if what == "with the next step" else figure

    def tell(self) -> None:
        for name in (OURS, OVERLAP, ASYNC, STAGED, REPLICAS):
            if name in self.figures:
                call, added = (self.median(name, what) * 1e3 for what in ("call", "with the next step"))
                self.say(f"{name:42} call {call:7.1f} ms   with the next step {added:7.1f} ms")
        if not self.one_node:
            self.say(f"{self.mirrored} of {self.sent} saves were mirrored, {self.skipped} skipped")
        if replicas is None and not self.one_node:
            self.say("nvidia-resiliency-ext is left out; to have it: pip install --no-deps nvidia-resiliency-ext")
        for what, ours, theirs, *goals in RATIOS:
            if theirs not in self.figures:
                continue
            mine, its = self.median(ours, what), self.median(theirs, what)
            # On a busy machine a save may seem to add nothing, or less.
            ratio = f"{mine / its:.2f} x" if min(mine, its) > 0 else "no multiple of"
            goal = goals[0 if self.one_node else 1]
            self.say(f"{what}: {ours} is {ratio} {theirs}, goal {goal:g}")
        mine, its = (statistics.median(row) for row in self.figures["step"].values())
        self.say(f"a step of {its * 1e3:.0f} ms with a save: {mine / its:.3f} x one without, goal {STEP_GOAL:g}")


def train(folder: str, layers: int, dims: int) -> None:
    warnings.simplefilter("ignore")
    rank = Rank(layers, dims)
    n = sum(p.numel() for p in rank.trainer.model.parameters())
    where = "one node" if rank.one_node else "two nodes, each save mirrored"
    rank.say(f"FSDP2, two ranks, {where}: {n / 1e6:.0f} million parameters, {rank.bytes / 1e6:.0f} MB a rank")
    gpu = torch.cuda.is_available()
    stager = DefaultStager(
        StagingOptions(
            use_pinned_memory=gpu, use_shared_memory=True, use_async_staging=True, use_non_blocking_copy=gpu
        )
    )
    for _ in range(TURNS):
        rank.ours(False)
        rank.ours(True)
        rank.async_save(folder)
        rank.async_save(folder, stager)
        if replicas is not None and not rank.one_node:
            rank.replicas(folder)
    stager.close()
    rank.tell()
    dist.destroy_process_group()


if __name__ == "__main__":
    train(sys.argv[1], *map(int, sys.argv[2:]))
