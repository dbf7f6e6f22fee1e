"""The random generators of this process: Python's, numpy's, PyTorch's."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch


def capture() -> "dict[str, Any]":
    """Their states. CUDA's is asked only if CUDA is in use."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: "dict[str, Any]") -> None:
    """As they were; what is not in use here is left out."""
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
