"""This process's place in the job, its progress, and requests to stop."""

from __future__ import annotations

import ctypes
import os
import signal
from ctypes import c_int32
from dataclasses import dataclass
from typing import Any, Optional

from ._libddp import call, lib, usage

_I32, _MAX = 6, 2  # DDP_I32, DDP_MAX


@dataclass(frozen=True)
class Place:
    """What the launcher gave this process; a world of one without a launcher."""

    rank: int  #: 0 .. world - 1
    world: int  #: all workers of the job
    local_rank: int  #: on this node
    local_world: int
    group_rank: int  #: the node's number
    restart_count: int
    round: int  #: from 1; 0 without a launcher
    run_id: str


class _Job:
    """The handles of this process. A child that it forks has none: a worker of
    a DataLoader neither beats nor saves."""

    def __init__(self) -> None:
        self.handle: Optional[int] = None
        self.comm_handle: Optional[int] = None
        self.forked = False
        self.catches = False  # SIGTERM, for should_stop

    def get(self) -> int:
        if self.forked:
            raise usage("a forked child of a worker has no place in the job; call ddprun in the worker itself")
        if self.handle is None:
            self.handle = call("ddp_init")
        return self.handle

    def comm(self) -> int:
        if self.comm_handle is None:
            self.comm_handle = call("ddp_comm_new", self.get(), None)
        return self.comm_handle

    def catch(self) -> None:
        """SIGTERM only sets a flag from now on, unless the program has a handler
        of its own. Only once all ranks have met: see ddp_comm_new."""
        if not self.catches and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            call("ddp_stop_on_signal", self.get(), int(signal.SIGTERM))
            self.catches = True

    def uncover(self, handler: Any) -> None:
        if handler is signal.SIG_DFL and self.catches:
            call("ddp_stop_on_signal", self.get(), int(signal.SIGTERM))
        elif signal.getsignal(signal.SIGTERM) is not handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if handler is None else handler)

    def forget(self) -> None:
        """A standby is a forked child, too, of a process that imported this and is no
        worker."""
        self.forked |= self.handle is not None or "RANK" in os.environ
        self.handle = self.comm_handle = None
        if self.catches:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


_job = _Job()
os.register_at_fork(after_in_child=_job.forget)


def handle() -> int:
    """struct ddp *, for the other files of this package."""
    return _job.get()


def comm() -> int:
    """struct ddp_comm *, of all ranks; they meet in the first call."""
    return _job.comm()


def uncover(handler: Any) -> None:
    """SIGTERM had this handler before a framework took it: it is as it was."""
    _job.uncover(handler)


def place() -> Place:
    """This process's place in the job.

    Error: a variable of the launcher is missing or has a bad value.
    """
    d = _job.get()
    return Place(
        rank=lib.ddp_rank(d),
        world=lib.ddp_world(d),
        local_rank=lib.ddp_local_rank(d),
        local_world=lib.ddp_local_world(d),
        group_rank=lib.ddp_group_rank(d),
        restart_count=lib.ddp_restart_count(d),
        round=lib.ddp_round(d),
        run_id=(lib.ddp_run_id(d) or b"").decode(),
    )


def beat(step: int) -> None:
    """Tells the launcher that this worker makes progress (--hang_timeout).

    Cheap: call it at each step. In a forked child it does nothing.
    """
    if not _job.forked:
        lib.ddp_beat(_job.get(), step)


def should_stop() -> bool:
    """Whether the job should save and leave now: a node joins or leaves, the
    launcher was told to end, or the scheduler takes the node away.

    Collective: all ranks call it at the same steps and get the same answer. It
    costs one small all-reduce over TCP. From the first call on SIGTERM does not
    end this process; it has --shutdown_timeout to leave. It does after a rank
    died: then no step comes at which all could leave. A handler of the
    program's own stays, and what the launcher says is told beside it.

    Error: a rank died, as in any collective.
    """
    d = _job.get()
    alone = lib.ddp_world(d) == 1
    c = None if alone else _job.comm()
    _job.catch()
    flag = c_int32(lib.ddp_should_stop(d) != 0)
    if alone:
        return flag.value != 0
    at = ctypes.byref(flag)
    call("ddp_comm_all_reduce", c, at, at, 1, _I32, _MAX)
    return flag.value != 0
