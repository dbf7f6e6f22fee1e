"""A bit of one rank changes: that rank is named, and the result is the undisturbed
run's to the bit. FLIPS=50 changes more, with standbys (make check-long)."""

from __future__ import annotations

import os
import re
from typing import Callable

from conftest import HERE, Job

Start = Callable[..., Job]
FLIPS = int(os.environ.get("FLIPS", 1))
STEPS = 10 + 8 * FLIPS
EVERY = 4  # of wrong_bits.py
PROGRAM = str(HERE / "wrong_bits.py")
STANDBY = ["--standby=auto"] if FLIPS > 10 else []


def run(ddprun: Start, flips: int, world: int, name: str) -> str:
    line = ["--standalone", f"--nproc_per_node={world}", f"--max_restarts={flips}", *STANDBY]
    return ddprun(*line, PROGRAM, STEPS, flips, name=name).wait(0, 150 + 30 * flips)


def digest(text: str) -> str:
    (found,) = re.findall(r"digest (\w+)", text)
    return str(found)


def test_the_rank_with_a_wrong_bit_is_named(ddprun: Start) -> None:
    text = run(ddprun, FLIPS, 3, "wrong")
    flips = [tuple(map(int, x)) for x in re.findall(r"flip \d+ rank (\d) step (\d+)", text)]
    named = re.findall(r"Error: after step (\d+) rank (\d) on node 0 has wrong bits in tensor '([\w.]+)'", text)
    assert len(flips) == len(named) == FLIPS, text
    blamed = re.findall(r"round \d+: rank (\d) \(pid \d+\): exit code 67", text)
    assert blamed == [wrong for _, wrong, _ in named], text
    begun = [int(step) for step in re.findall(r"began (\d+) from memory", text)]
    assert len(begun) == FLIPS, text
    for (rank, step), (after, wrong, _), start in zip(flips, named, begun):
        assert int(wrong) == rank and 0 <= int(after) - step < EVERY, text
        assert start < step, text
    assert len(re.findall(r"not all ranks have the same state: tensor '[\w.]+weight'", text)) == FLIPS + 1, text
    assert digest(text) == digest(run(ddprun, 0, 3, "undisturbed"))


def test_two_ranks_that_differ_are_told(ddprun: Start) -> None:
    text = run(ddprun, 1, 2, "two")
    assert "nobody can tell which is right" in text
    assert digest(text) == digest(run(ddprun, 0, 2, "undisturbed"))
