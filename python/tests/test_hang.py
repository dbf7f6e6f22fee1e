"""Ranks of PyTorch on gloo wait in a collective for one that does not come: the
report names that one and no other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest

JOB = """
import os, signal, sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, away, how = dist.get_rank(), int(sys.argv[1]), sys.argv[2]

def validate():
    time.sleep(1000)

for step in range(5):
    with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
        file.write(f"{step}\\n")
    if step == 3 and rank == away and how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif step == 3 and rank == away:
        validate()
    dist.all_reduce(torch.ones(2))
"""


@pytest.mark.parametrize(
    ("world", "away", "how", "does"),
    [
        (2, 0, "skip", "sleeps"),
        (2, 1, "stop", "is stopped (state T"),
        (3, 0, "stop", "is stopped (state T"),
        (3, 1, "skip", "sleeps"),
        (3, 2, "skip", "sleeps"),
    ],
)
def test_the_rank_that_does_not_come_is_named(
    ddprun: Callable[..., Any], tmp_path: Path, world: int, away: int, how: str, does: str
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(JOB)
    no_gdb = tmp_path / "bin" / "gdb"  # it takes many seconds for a process with torch
    no_gdb.parent.mkdir()
    no_gdb.write_text("#!/bin/sh\n")
    no_gdb.chmod(0o755)
    path = f"{no_gdb.parent}{os.pathsep}{os.environ['PATH']}"
    job = ddprun(f"--nproc_per_node={world}", "--hang_timeout=0,6", "job.py", str(away), how, PATH=path)
    text = job.wait(82)
    (first,) = [line for line in text.splitlines() if "first failure" in line]
    assert f"rank {away} on" in first and f"made no progress: it {does}" in first, text
    others = [str(rank) for rank in range(world) if rank != away]
    waits = f"ranks {', '.join(others)} wait" if world > 2 else f"rank {others[0]} waits"
    assert f"error           {waits}" in text, text
