"""How long a process with PyTorch stands still while `ddpctl stacks` looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import free_port

MOST_S = 0.3  # what is promised; it is some tens of milliseconds
LOOKS = 3  # others use the machine, too: the shortest stop counts

JOB = """
import os, threading, time
import torch

longest = [0.0]

def watch():
    last = time.monotonic()
    while True:
        time.sleep(0.001)
        now = time.monotonic()
        longest[0] = max(longest[0], now - last)
        last = now

(torch.ones(8, 8) @ torch.ones(8, 8)).sum().item()
threading.Thread(target=watch, daemon=True).start()
for look in range(3):
    time.sleep(0.5)
    longest[0] = 0.0
    print(f"ready {look}", flush=True)
    while not os.path.exists(f"look{look}"):
        time.sleep(0.01)
    print(f"longest {look} {longest[0]:.4f}", flush=True)
"""


def test_the_stop_is_short(ddprun: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    beside = Path(pytest.__file__).parents[1] / "bin"  # where check-python has it
    path = os.pathsep.join([os.environ["PATH"], str(beside)])
    if shutil.which("py-spy", path=path) is None:
        pytest.skip("needs py-spy")
    (tmp_path / "job.py").write_text(JOB)
    at = f"127.0.0.1:{free_port()}"
    job = ddprun(f"--rdzv_endpoint={at}", "--rdzv_id=job", "job.py", PATH=path)
    stops = []
    for look in range(LOOKS):
        job.wait_for(f"ready {look}")
        line = ["ddpctl", f"--endpoint={at}", "stacks", "job"]
        shown = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        assert shown.returncode == 0 and "<module> (" in shown.stdout, shown.stdout
        (tmp_path / f"look{look}").touch()
        stops.append(float(job.wait_for(f"longest {look} ").split()[-1]))
    job.wait()
    print(f"stops of a process with PyTorch: {stops} s")
    assert min(stops) <= MOST_S, stops
