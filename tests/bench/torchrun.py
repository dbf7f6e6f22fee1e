"""torchrun as it is installed, with one repair.

PyTorch 1.13 fails at start under Python 3.11: Std.from_str looks its result up
by iterating over Std, and an IntFlag no longer yields its 0 and 3, so it
returns None. Nothing else is touched, and nothing at all where it works.
"""

import re

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std


def from_str(text):
    """One of 0 to 3 for all local ranks, or "RANK:0..3,..."; see its --help."""
    if re.fullmatch("[0-3]", text):
        return Std(int(text))
    pairs = (pair.split(":") for pair in text.split(","))
    return {int(rank): Std(int(what)) for rank, what in pairs}


if Std.from_str("0") is None:
    Std.from_str = staticmethod(from_str)
run.main()
