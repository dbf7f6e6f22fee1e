"""ddprun's side of a training program.

The launcher is the program `ddprun`; a program that it starts needs none of
this. With it the program tells its progress (`beat`), leaves in order when it is
asked to (`should_stop`), and keeps its state in memory and on disk, so that a
killed worker or node costs one step (`snapshot`). See docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._job import Place, beat, place, should_stop
from ._libddp import Error, version

__version__ = version()
__all__ = ["Error", "Piece", "Place", "State", "StatefulSampler", "beat", "place", "should_stop", "snapshot"]

if TYPE_CHECKING:
    from ._sampler import StatefulSampler
    from ._shards import Piece
    from ._snapshot import State, snapshot


def __getattr__(name: str) -> Any:
    """What needs PyTorch is imported when it is asked for."""
    if name == "StatefulSampler":
        from ._sampler import StatefulSampler

        return StatefulSampler
    if name == "Piece":
        from ._shards import Piece

        return Piece
    if name in ("State", "snapshot"):
        from . import _snapshot

        return getattr(_snapshot, name)
    raise AttributeError(f"module 'ddprun' has no attribute {name!r}")
