"""docs/python.md, as a reader follows it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Callable

from conftest import HERE, Job, free_port

PAGE = HERE.parent.parent / "docs" / "python.md"


def write_script(folder: Path) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (folder / "train.py").write_text(script)


def line(start: str) -> "list[str]":
    """The command of the page that begins so, without its first word."""
    (found,) = re.findall(rf"^    ddprun ({start}.*)$", PAGE.read_text(), re.M)
    return str(found).split()


def steps(text: str) -> "list[tuple[int, int, int, int]]":
    """(rank, world, pid, step) of each start."""
    rows = re.findall(r"rank (\d+) of (\d+): pid (\d+), at step (\d+)", text)
    return [(int(a), int(b), int(c), int(d)) for a, b, c, d in rows]


def test_a_killed_worker_and_a_preemption(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    write_script(tmp_path)
    job = ddprun(*line("--standalone"))
    job.wait_for("epoch 0 ended")
    os.kill(steps(job.text())[-1][2], signal.SIGKILL)
    job.wait_for_starts(4, steps)
    assert min(step for _, _, _, step in steps(job.text())[2:]) >= 99
    job.wait_for("epoch 1 ended")
    job.process.send_signal(signal.SIGTERM)
    job.wait(143)
    again = ddprun(*line("--standalone"), name="again")
    text = again.wait()
    assert min(step for _, _, _, step in steps(text)) >= 200
    assert re.findall(r"epoch (\d) ended", text) == ["2", "3"]


def test_a_lost_node(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    write_script(tmp_path)
    words = [word.replace("29500", str(free_port())) for word in line("--nnodes")]
    first, second = ddprun(*words, name="one"), ddprun(*words, name="two")
    first.wait_for("of 2:")
    second.wait_for("of 2:")
    if "rank 0 of 2" in second.text():  # they were started at once
        first, second = second, first
    first.wait_for("epoch 0 ended")
    for pid in [second.process.pid, second.agent()]:
        os.kill(pid, signal.SIGKILL)
    last = first.wait_for("of 1:")
    assert steps(last)[0][3] >= 99
    third = ddprun(*words, name="third")
    third.wait_for("of 2:")
    third.wait()
    assert "epoch 3 ended" in first.wait()
