"""The callbacks, in the frameworks themselves, with a worker that is killed."""

from __future__ import annotations

import os
import re
import signal
from typing import Callable

import pytest

from conftest import HERE, Job


def killed_in_the_middle(ddprun: Callable[..., Job], program: str, n: int, at: str) -> Job:
    job = ddprun("--standalone", "--nproc_per_node=2", "--max_restarts=1", HERE / program, n, PAUSE="0.02")
    job.wait_for(at)
    pid = re.findall(r"rank 1 pid (\d+)|pid (\d+) rank 1", job.text())[-1]
    os.kill(int("".join(pid)), signal.SIGKILL)
    job.wait(limit=150)
    return job


def test_lightning_goes_on_to_the_bit(ddprun: Callable[..., Job]) -> None:
    pytest.importorskip("lightning.pytorch")
    whole = ddprun("--standalone", "--nproc_per_node=2", HERE / "lightning_job.py", 4, name="whole")
    text = whole.wait(limit=150)
    killed = killed_in_the_middle(ddprun, "lightning_job.py", 4, "step 17 ").text()
    assert re.findall(r"digest \w+", killed) == re.findall(r"digest \w+", text)
    steps = [int(n) for n in re.findall(r"step (\d+) rank 0", killed)]
    assert max(steps) == 40 and 40 <= len(steps) <= 42


def test_transformers_goes_on_at_the_step(ddprun: Callable[..., Job]) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    text = killed_in_the_middle(ddprun, "transformers_job.py", 40, "step 17\n").text()
    starts = {int(n) for n in re.findall(r"began (\d+)", text)}
    assert len(starts) == 2 and 0 in starts and max(starts) >= 16, starts
    assert text.count("ended at 40") == 1
