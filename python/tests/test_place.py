"""place, beat and should_stop, also in children that are forked."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import ddprun
from conftest import Job


def test_without_a_launcher_the_world_has_one_rank() -> None:
    at = ddprun.place()
    assert (at.rank, at.world, at.round, at.run_id) == (0, 1, 0, "none")
    ddprun.beat(1)
    assert not ddprun.should_stop()


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
