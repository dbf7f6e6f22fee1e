"""What the tests share: runs of real programs under the real launcher."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

HERE = Path(__file__).resolve().parent
# Without the folder of pytest: it has modules that torch needs, and what is not
# installed where torch is is not imported ahead.
PATHS = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if not (Path(p) / "pytest").is_dir()]
COMMON = {"PYTHONPATH": os.pathsep.join(PATHS), "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def same(a: Any, b: Any) -> bool:
    """Two states, to the bit."""
    import torch

    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


class Job:
    """ddprun with workers in Python, and what they printed."""

    def __init__(
        self, folder: Path, name: str, line: "list[str]", env: "dict[str, str]", program: str = "ddprun"
    ) -> None:
        self.log = folder / f"{name}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [program, *line],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **COMMON, **env},
            )

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, words: str, limit: float = 60) -> str:
        """Its first line with these words."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            for line in self.text().splitlines(keepends=True):
                if words in line and line.endswith("\n"):
                    return line
            assert self.process.poll() is None, f"it ended without {words!r}:\n{self.text()}"
            time.sleep(0.01)
        raise AssertionError(f"no {words!r} in {limit} s:\n{self.text()}")

    def wait_for_starts(self, n: int, begun: "Callable[[str], list[Any]]", limit: float = 60) -> None:
        until = time.monotonic() + limit
        while len(begun(self.text())) < n:
            assert time.monotonic() < until, f"no start {n} in {limit} s:\n{self.text()}"
            time.sleep(0.02)

    def agent(self) -> int:
        """Below the guard, which is our child, and the janitor."""
        pid = self.process.pid
        for _ in range(2):
            (pid,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return pid

    def wait(self, status: int = 0, limit: float = 150) -> str:
        try:
            got = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.text()}") from None
        assert got == status, f"status {got}, not {status}:\n{self.text()}"
        return self.text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def in_a_world() -> "Iterator[Callable[[int, int], None]]":
    """in_a_world(RANK, WORLD): PyTorch in a world that is not there, as one of its ranks."""
    dist = pytest.importorskip("torch").distributed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    def enter(rank: int, world: int) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)

    yield enter
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def ddprun(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """ddprun(WORD..., name="job", program="ddprun", VARIABLE=...): starts a Job
    in the folder of this test."""
    jobs: list[Job] = []

    def start(*line: Any, name: str = "job", program: str = "ddprun", **env: str) -> Job:
        jobs.append(Job(tmp_path, name, [str(word) for word in line], env, program))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()
