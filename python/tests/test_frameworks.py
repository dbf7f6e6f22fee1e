"""The callbacks, in the frameworks themselves, with a worker that is killed."""

from __future__ import annotations

import os
import re
import signal
from typing import Callable, Iterator

import pytest
import torch

from conftest import HERE, Job


def killed_at(ddprun: Callable[..., Job], program: str, n: int, *marks: str, **env: str) -> str:
    """Its rank 1, each time that a mark comes."""
    line = ["--standalone", "--nproc_per_node=2", f"--max_restarts={len(marks)}", HERE / program, n]
    job = ddprun(*line, PAUSE="0.02", **env)
    for mark in marks:
        job.wait_for(mark, limit=150)
        pid = re.findall(r"rank 1 pid (\d+)|pid (\d+) rank 1", job.text())[-1]
        os.kill(int("".join(pid)), signal.SIGKILL)
    return job.wait(limit=150)


def stopped(ddprun: Callable[..., Job], program: str, n: int) -> "tuple[str, str]":
    """What it printed until it was told to end in the middle, and after the next launch."""
    line = ["--standalone", "--nproc_per_node=2", HERE / program, n, "ckpt"]
    job = ddprun(*line, PAUSE="0.02")
    job.wait_for("step 12", limit=150)
    job.process.send_signal(signal.SIGTERM)
    left = job.wait(143, limit=150)
    return left, ddprun(*line, name="again").wait(limit=150)


def last_step(text: str) -> int:
    return max(map(int, re.findall(r"step (\d+)", text)))


def same_end(whole: str, other: str, *names: str) -> None:
    for name in names:
        ends = [re.findall(rf"{name} .*", text) for text in (whole, other)]
        assert len(ends[0]) == 1 and ends[0] == ends[1], ends


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_lightning_goes_on_to_the_bit(ddprun: Callable[..., Job], strategy: str) -> None:
    pytest.importorskip("lightning.pytorch")
    line = ["--standalone", "--nproc_per_node=2", HERE / "lightning_job.py", 4]
    text = ddprun(*line, name="whole", BEST="whole", STRATEGY=strategy).wait(limit=150)
    killed = killed_at(ddprun, "lightning_job.py", 4, "step 17 ", "step 31 ", STRATEGY=strategy)
    same_end(text, killed, "digest", "known")
    steps = [int(n) for n in re.findall(r"step (\d+) rank 0", killed)]
    assert max(steps) == 40 and 40 <= len(steps) <= 44


def test_lightning_is_on_the_disk_after_sigterm(ddprun: Callable[..., Job]) -> None:
    pytest.importorskip("lightning.pytorch")
    left, text = stopped(ddprun, "lightning_job.py", 4)
    assert "digest" not in left and min(map(int, re.findall(r"step (\d+) rank 0", text))) == last_step(left) + 1
    whole = ddprun("--standalone", "--nproc_per_node=2", HERE / "lightning_job.py", 4, name="whole", BEST="whole")
    same_end(whole.wait(limit=150), text, "digest", "known")


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def test_the_place_in_the_data_is_that_of_another_world_too() -> None:
    """Eight samples were taken, by however many ranks; one goes on."""
    data = pytest.importorskip("ddprun.transformers")._Data
    loader = torch.utils.data.DataLoader(range(10), batch_size=4)  # type: ignore[arg-type,var-annotated]
    here = data(loader, 1)
    here.load_state_dict({"epoch": 5, "samples": 8})
    assert [batch.tolist() for batch in loader] == [[8, 9]]
    assert here.stepped() == 6.0 and here.state_dict() == {"epoch": 5, "samples": 12}
    here.begins(1)
    assert len(list(loader)) == 3 and here.stepped() == 6 + 1 / 3
    here.load_state_dict({"epoch": 5, "samples": 12})  # the whole epoch
    assert (here.epoch, here.batches) == (6, 0)
    stream = data(torch.utils.data.DataLoader(Stream(), batch_size=4), 1)
    stream.load_state_dict({"epoch": 0, "samples": 8})
    assert stream.stepped() == 0.0 and stream.state_dict()["samples"] == 12


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_transformers_goes_on_to_the_bit(ddprun: Callable[..., Job], strategy: str) -> None:
    """Killed in an epoch, of 8 steps, and where one ends."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    line = ["--standalone", "--nproc_per_node=2", HERE / "transformers_job.py", 40]
    text = ddprun(*line, name="whole", BEST="whole", STRATEGY=strategy).wait(limit=150)
    killed = killed_at(ddprun, "transformers_job.py", 40, "step 17\n", "step 24\n", STRATEGY=strategy)
    starts = sorted({int(n) for n in re.findall(r"began (\d+)", killed)})
    assert len(starts) == 3 and starts[0] == 0 and starts[1] >= 16 and starts[2] >= 23, starts
    same_end(text, killed, "last", "ended at", "digest", "known")


def test_transformers_is_on_the_disk_after_sigterm_and_runs_nothing_else(ddprun: Callable[..., Job]) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    left, text = stopped(ddprun, "transformers_job.py", 40)
    assert "train has returned" not in left
    assert f"began {last_step(left)} " in text
    whole = ddprun("--standalone", "--nproc_per_node=2", HERE / "transformers_job.py", 40, name="whole", BEST="whole")
    same_end(whole.wait(limit=150), text, "last", "ended at", "digest", "known")
