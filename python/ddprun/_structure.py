"""What a snapshot tells of itself: its structure.

The structure of the state (what is where, numbers, text) is JSON in a tensor of
its own, STRUCTURE; the tensors stand beside it under readable names.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, NamedTuple

import torch

from ._libddp import CONFIG, CORRUPT, Error, Kept, usage

STRUCTURE = "ddprun.structure"
FORMAT = 3  # 1, 2: of states that all ranks have alike, with other names; 1 has fewer kinds of values
PAGE = 4096  # the structure and the states of the ranks have whole pages

Prepare = Callable[[int, "dict[str, Any]"], None]


def pages(n: int) -> int:
    return -(-n // PAGE) * PAGE


def compact(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))


def as_tensor(text: str) -> torch.Tensor:
    data = text.encode()
    return torch.frombuffer(bytearray(data.ljust(pages(len(data)))), dtype=torch.uint8)


class Found(NamedTuple):
    """What a keeper had."""

    kept: Kept
    parts: "dict[str, Any]"
    extra: "dict[str, Any]"


# What is raised if a structure is not as it is written here.
NONSENSE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, struct.error)


def of_no_sense(e: Exception) -> Error:
    return Error(CORRUPT, f"the structure of the snapshot makes no sense: {type(e).__name__}: {e}")


def too_new() -> Error:
    return Error(CONFIG, "a newer version of ddprun wrote the snapshot; use that one")


def not_ours() -> Error:
    return usage("the snapshot was not written by ddprun.snapshot; use another folder")
