"""place, beat and should_stop, also in children that are forked."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Callable

import ddprun as package
from conftest import PATHS, Job


def test_without_a_launcher_the_world_has_one_rank() -> None:
    at = package.place()
    assert (at.rank, at.world, at.round, at.run_id) == (0, 1, 0, "none")
    package.beat(1)
    assert not package.should_stop()


def test_a_forked_child_has_no_place_and_dies_of_sigterm(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(
        """
import os, signal, ddprun
ddprun.should_stop()
child = os.fork()
if child == 0:
    ddprun.beat(1)
    try:
        ddprun.place()
    except ddprun.Error as e:
        os.write(1, f"{e.code} {e}\\n".encode())
    os.kill(os.getpid(), signal.SIGTERM)
    os._exit(0)
print("died of", os.WTERMSIG(os.waitpid(child, 0)[1]))
os.kill(os.getpid(), signal.SIGTERM)
print("asked", ddprun.should_stop())
"""
    )
    text = ddprun("--standalone", "forks.py").wait()
    assert "2 a forked child of a worker has no place" in text
    assert "died of 15" in text and "asked True" in text


def test_a_handler_of_the_programs_own_stays(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        """
import os, signal, ddprun
signal.signal(signal.SIGTERM, lambda *_: print("its own"))
ddprun.should_stop()
os.kill(os.getpid(), signal.SIGTERM)
print("asked", ddprun.should_stop())
"""
    )
    text = ddprun("--standalone", "own.py").wait()
    assert "its own" in text and "asked False" in text


def test_the_end_of_the_launcher_is_told_beside_any_handler(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        """
import os, signal, time, ddprun
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"its own\\n"))
until = time.monotonic() + 60
os.write(1, b"ready\\n" if not ddprun.should_stop() else b"too soon\\n")
while not ddprun.should_stop() and time.monotonic() < until:
    time.sleep(0.02)
os.write(1, f"asked {ddprun.should_stop()}\\n".encode())
"""
    )
    job = ddprun("--standalone", "--nproc_per_node=2", "own.py")
    job.wait_for_starts(2, lambda text: re.findall("ready", text))
    job.process.send_signal(signal.SIGTERM)
    text = job.wait(143)
    assert text.count("its own") == 2 and text.count("asked True") == 2


def test_a_standby_that_imported_it_has_its_place(ddprun: Callable[..., Job], tmp_path: Path) -> None:
    """As a wheel installs it: only what is in site-packages is imported ahead."""
    installed = tmp_path / "site-packages"
    shutil.copytree(Path(package.__file__).parent, installed / "ddprun")
    (tmp_path / "job.py").write_text(
        """
import os, signal, sys, time
import ddprun
at = ddprun.place()
ddprun.beat(1)
if at.restart_count == 0:
    while not os.path.exists("go"):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
print("place", at.rank, "stop", ddprun.should_stop(), flush=True)
if os.fork() == 0:
    try:
        ddprun.place()
    except ddprun.Error as e:
        os.write(1, b"refused in a child\\n")
    os._exit(0)
os.wait()
"""
    )
    job = ddprun(
        "--standalone",
        "--standby=auto",
        "--max_restarts=1",
        "job.py",
        PYTHONPATH=os.pathsep.join([str(installed), *PATHS]),
    )
    job.wait_for("imported ahead", 150)
    (tmp_path / "go").touch()
    text = job.wait()
    assert "1 of 1 worker started from a standby" in text
    assert "place 0 stop False" in text and "refused in a child" in text
