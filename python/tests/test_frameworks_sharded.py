"""Sharded training as users have it, killed and stopped. What several cases of
framework_jobs.py have in common is played by one job, whose snapshot has all of them."""

from __future__ import annotations

import os
import random
import re
import signal
from pathlib import Path
from typing import Callable

import pytest

from conftest import HERE, Job, free_port

Start = Callable[..., Job]
PROGRAM = HERE / "framework_jobs.py"
STEPS = 18
PYTORCH = (
    "mixed,compiled,frozen,tied,norm,master,unfreeze,averaged,averaged_dict,averaged_model,fsdp1,fsdp1_orig,"
    "zero_redundancy"
)
OTHERS = {"accelerated": "accelerate", "lora": "peft", "loader": "torchdata", "eight_bits": "bitsandbytes", "zero,zero2": "deepspeed"}


def pid_of(job: Job, rank: int) -> int:
    return int(re.findall(rf"pid (\d+) rank {rank}\b", job.text())[-1])


def starts(text: str) -> "list[int]":
    """The steps at which rank 0 has begun."""
    return sorted({int(step) for step in re.findall(r"began (\d+) rank 0 ", text)})


def told(text: str) -> "tuple[set[str], dict[str, str]]":
    """The digests at the end, and the last loss of each step, rank and case."""
    losses = dict(re.findall(r"(step \d+ rank \d+ loss \w+) (\S+)", text))
    return set(re.findall(r"digest \w+ \w+ rank \d+", text)), losses


def killed_and_not(ddprun: Start, cases: str, world: int, seed: int) -> None:
    """Two workers are killed, each at a step that is drawn."""
    drawn = random.Random(seed)
    line = ["--standalone", f"--nproc_per_node={world}", "--max_restarts=2", PROGRAM, cases, STEPS]
    whole = ddprun(*line, name="whole").wait(limit=300)
    job = ddprun(*line, PAUSE="0.05")
    for i in range(2):
        step, rank = 6 * i + drawn.randrange(2, 6), drawn.randrange(world)
        job.wait_for(f"step {step} rank {rank}", limit=300)
        os.kill(pid_of(job, rank), signal.SIGKILL)
        job.wait_for_starts(i + 2, starts, limit=300)
        assert starts(job.text())[-1] >= step - 2  # is told before it is saved
    text = job.wait(limit=300)
    assert "from disk" not in text and told(text) == told(whole)


@pytest.mark.parametrize("cases, world", [(PYTORCH, 2), ("hsdp", 4)], ids=["pytorch", "hsdp"])
def test_sharded_training_goes_on_to_the_bit(ddprun: Start, cases: str, world: int) -> None:
    killed_and_not(ddprun, cases, world, seed=world)


@pytest.mark.parametrize("case", OTHERS)
def test_sharded_training_of_a_framework_goes_on_to_the_bit(ddprun: Start, case: str) -> None:
    pytest.importorskip(OTHERS[case])
    killed_and_not(ddprun, case, 2, seed=5)


def test_a_job_that_was_stopped_goes_on_from_its_newest_step_on_disk(ddprun: Start, tmp_path: Path) -> None:
    """Each step is on disk, of which two stay."""
    line = ["--standalone", "--nproc_per_node=2", PROGRAM, "mixed,tied", STEPS]
    whole = ddprun(*line, name="whole").wait()
    job = ddprun(*line, "ckpt", PAUSE="0.1", DISK_EVERY="1")
    job.wait_for("step 6 rank 0")
    job.process.send_signal(signal.SIGTERM)
    (stopped,) = set(re.findall(r"stopped at (\d+)", job.wait(143)))
    again = ddprun(*line, "ckpt", name="again", DISK_EVERY="1").wait()
    assert starts(again) == [int(stopped)] and "from disk" in again
    assert told(again)[0] == told(whole)[0]
    # The newest one is known to be whole when the next is saved.
    assert 2 <= len(list((tmp_path / "ckpt").glob("step-*"))) <= 3


def test_each_world_begins_with_what_the_one_before_had(ddprun: Start) -> None:
    """2 ranks, 1, 2, 3: a node is killed, and others come. What was lost with a node is
    taken from the disk."""
    endpoint = f"127.0.0.1:{free_port()}"
    ddprun(f"--listen={endpoint}", program="ddprdzvd", name="daemon").wait_for("serving on port")
    place = ["--nnodes=1:3", "--nproc_per_node=1", f"--rdzv_endpoint={endpoint}", "--max_restarts=5"]
    # How long a running round waits for more nodes before one that came gets a place.
    place.append("--rdzv_conf=last_call_timeout=3")

    def node(name: str) -> Job:
        line = [*place, PROGRAM, "mixed", 1000, "ckpt"]
        jobs.append(ddprun(*line, name=name, PAUSE="0.2", DISK_EVERY="1", DIGESTS="1"))
        return jobs[-1]

    def text() -> str:
        return "".join(job.text() for job in jobs)

    def begun_in(n: int) -> "list[str]":
        return sorted(set(re.findall(rf"began \d+ rank \d+ of {n} ", text())))

    def world_of(n: int) -> None:
        """Its ranks have begun, and taken steps."""
        seen = begun_in(n)
        jobs[0].wait_for_starts(len(seen) + n, lambda _: begun_in(n), limit=300)
        step = int(re.findall(rf"began (\d+) rank \d+ of {n} ", text())[-1])
        jobs[0].wait_for(f"after {step + 3} ", limit=300)

    jobs: "list[Job]" = []
    node("a"), node("b")
    world_of(2)
    agent = jobs[1].agent()
    os.kill(jobs[1].process.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    world_of(1)
    node("c")
    world_of(2)
    node("d")
    world_of(3)
    for job in jobs:
        job.end()
    after = {(step, digest) for step, digest in re.findall(r"after (\d+) mixed (\w+)", text())}
    begun = set(re.findall(r"began (\d+) rank \d+ of \d+ from \w+ with mixed (\w+)", text()))
    assert len(begun) >= 4 and {each for each in begun if each[0] != "0"} <= after, (begun, after)
