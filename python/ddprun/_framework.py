"""What the callbacks for frameworks have in common.

Both save where a step begins, not where one has ended: only then is all that
belongs to the step before it done (a validation, the best metric, early stopping, a
checkpoint of the framework's own). A restarted program comes by the same place
before its first step. There its state is put once more, since on the way the
framework has begun an epoch again, has perhaps validated, and has drawn numbers.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import signal
import warnings
from ctypes import c_int64
from typing import Any, Callable, NoReturn

import torch

from . import _rng
from ._job import comm, place
from ._libddp import Error, call
from ._snapshot import State
from ._tree import Reader, Writer

SMALL = 4096  # bytes of a tensor that rank 0 sends to the others


def of_rank_0(data: bytes) -> bytes:
    """What rank 0 gives. Collective."""
    if place().world == 1:
        return data
    n = c_int64(len(data))
    call("ddp_comm_broadcast", comm(), ctypes.byref(n), 8, 0)
    room = ctypes.create_string_buffer(data, len(data)) if place().rank == 0 else ctypes.create_string_buffer(n.value)
    if n.value > 0:
        call("ddp_comm_broadcast", comm(), room, n.value, 0)
    return room.raw


class _Mixed(Writer):
    """Has the bytes of small tensors in its JSON. The large ones (averaged weights)
    are the same on all ranks, as the model is."""

    def store(self, t: torch.Tensor, at: str) -> "dict[str, Any]":
        self.inline = t.numel() * t.element_size() <= SMALL
        return super().store(t, at)


class Known:
    """What a framework and its callbacks know, as an `extra` of a snapshot: rank 0's,
    as in the framework's own checkpoints. `get` gives a dict with a tree for each of
    its parts, `put` takes it."""

    def __init__(self, get: "Callable[[], dict[str, Any]]", put: "Callable[[dict[str, Any]], None]") -> None:
        self.get, self.put = get, put
        self.text = "{}"
        self.tensors: dict[str, dict[str, torch.Tensor]] = {}
        self.left_out: set[str] = set()

    def look(self) -> None:
        """As it is now. Collective, before each save."""
        written = {}
        self.tensors = {}
        for name, tree in self.get().items():
            writer = _Mixed()
            try:
                written[name] = writer.write(tree, name)
            except Error as e:
                if name not in self.left_out:
                    warnings.warn(f"it is not kept, and begins anew after a restart: {e}", RuntimeWarning, stacklevel=3)
                self.left_out.add(name)
            if writer.tensors:  # else it may be rank 0's alone
                self.tensors[name] = writer.tensors
        self.text = of_rank_0(json.dumps(written).encode()).decode()

    def again(self) -> None:
        written = json.loads(self.text)
        self.put({name: Reader(self.tensors.get(name, {})).read(tree) for name, tree in written.items()})

    def state_dict(self) -> "dict[str, Any]":
        return {"text": self.text, "tensors": self.tensors}

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        self.text, self.tensors = state["text"], dict(state["tensors"])
        self.again()


def keep_too(how: "dict[str, Any]", where: str, **ours: Any) -> None:
    """Into the program's own `extra` or `per_rank`, if it gave one."""
    if how.get(where) is None:
        how[where] = {}
    how[where].update(ours)


class Start:
    """The way from a restart to the first step."""

    def __init__(self, state: State, *again: "Callable[[], None]") -> None:
        self.again = again if state.restored else ()
        self.generators = _rng.capture() if state.restored else None

    def step_begins(self) -> None:
        """Does something before the first one only."""
        for each in self.again:
            each()
        if self.generators is not None:
            _rng.restore(self.generators)
        self.again, self.generators = (), None


def _end_group() -> None:
    """PyTorch's gloo aborts in some processes that end with a group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def leave(state: State) -> NoReturn:
    """The job is to stop: what was kept goes to the disk, and the program ends here
    with the status of SIGTERM, so that what follows training does not run."""
    state.flush()
    state.close()
    atexit.register(_end_group)
    raise SystemExit(128 + signal.SIGTERM)
