"""How long a training step waits for its snapshot: GPT-2's 124 million
parameters with Adam (1.5 GB of state), one worker under ddprun, on the CPU.
Beside ddprun.snapshot: torch.distributed.checkpoint's async_save, and torch.save.

usage: ddprun --standalone --snapshot_memory=6G tests/bench/snapshot/stall.py [LAYERS]
       [--markdown]

A save is made when the one before has ended, every other step: the call's time,
and what it adds to the step with what follows. 12 LAYERS are GPT-2's. --markdown:
rows for ../run.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import warnings
from typing import Any, Callable

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import ddprun

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from common import markdown_line, times_better  # noqa: E402
from gpt2 import Trainer, gpt2, timed  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", 5))
MARKDOWN = "--markdown" in sys.argv
WAITS = "PyTorch, 1.5 GB of state: a step waits for its save (s)"
LONGER = "PyTorch, 1.5 GB of state: the same, and what the next step takes longer (s)"


played: "list[tuple[str, list[float], list[float]]]" = []  # the first is ours


def print_rows() -> None:
    for what, figures in ((WAITS, 1), (LONGER, 2)):
        ours = played[0][figures]
        for row in played:
            # What is added can be nothing, or less: such figures have no ratio.
            no_ratio = row[0].startswith("ddprun") or any(
                statistics.median(some) <= 0 for some in (ours, row[figures])
            )
            times = None if no_ratio else times_better(what, ours, row[figures])
            print(markdown_line(what, row[0], row[figures], times), flush=True)


def measure(name: str, trainer: Trainer, save: Callable[[], Any], wait: Callable[[], Any]) -> None:
    """`save` is what a step waits for, `wait` until nothing of it is under way."""
    save()
    wait()
    calls, added = [], []
    for _ in range(ROUNDS):
        plain = timed(trainer.step)
        calls.append(timed(save))
        added.append(calls[-1] + timed(trainer.step) - plain)
        wait()
    if MARKDOWN:
        played.append((name, calls, added))
        return
    print(
        f"{name:34} call {statistics.median(calls) * 1e3:7.1f} ms"
        f"   with the next step {statistics.median(added) * 1e3:7.1f} ms   of {ROUNDS}",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [word for word in sys.argv[1:] if word != "--markdown"]
    trainer = Trainer(gpt2(int(layers[0]) if layers else 12))
    trainer.step()
    n = sum(p.numel() for p in trainer.model.parameters())
    if not MARKDOWN:
        alone = timed(trainer.step) * 1e3
        print(f"{n / 1e6:.0f} million parameters, Adam; a step alone {alone:.0f} ms", flush=True)
    folder = tempfile.mkdtemp()
    for overlap in (False, True):
        state = ddprun.snapshot(trainer.model, trainer.optimizer, overlap=overlap)
        measure(
            "ddprun.snapshot" + (", overlap" if overlap else ""),
            trainer,
            lambda: state.save(state.step + 1),
            state.flush,
        )
        if state.no_memory:
            print("  not in memory:", state.no_memory, file=sys.stderr)
        state.close()
    under_way: list[Any] = []

    def async_save() -> None:
        under_way.append(dcp.async_save(trainer.state(), checkpoint_id=f"{folder}/dcp"))

    def wait_async() -> None:
        found = under_way.pop()
        getattr(found, "upload_completion", found).result()
        shutil.rmtree(f"{folder}/dcp")

    measure("async_save", trainer, async_save, wait_async)
    measure("torch.save", trainer, lambda: torch.save(trainer.state(), f"{folder}/x.pt"), lambda: None)
    shutil.rmtree(folder)
    if MARKDOWN:
        print_rows()
    dist.destroy_process_group()


main()
