"""ddprun's side of a training program.

The launcher is the program `ddprun`; a program that it starts needs none of
this. With it the program tells its progress (`beat`), leaves in order when it is
asked to (`should_stop`), and keeps its state in memory and on disk, so that a
killed worker or node costs one step (`snapshot`). See docs/python.md.
"""

from __future__ import annotations

from ._job import Place, beat, place, should_stop
from ._libddp import Error, version

__version__ = version()
__all__ = ["Error", "Place", "beat", "place", "should_stop"]
