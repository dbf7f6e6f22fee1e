"""This process's place in the job, its progress, and requests to stop."""

from __future__ import annotations

import ctypes
import os
from ctypes import c_int32
from dataclasses import dataclass
from typing import Optional

from ._libddp import Error, call, lib

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

    def get(self) -> int:
        if self.forked:
            raise Error(2, "a forked child of a worker has no place in the job; call ddprun in the worker itself")
        if self.handle is None:
            self.handle = call("ddp_init")
        return self.handle

    def comm(self) -> int:
        """The communicator of should_stop. Collective, the first time."""
        if self.comm_handle is None:
            self.comm_handle = call("ddp_comm_new", self.get(), None)
        return self.comm_handle

    def forget(self) -> None:
        self.handle = self.comm_handle = None
        self.forked = True


_job = _Job()
os.register_at_fork(after_in_child=_job.forget)


def handle() -> int:
    """struct ddp *, for the other files of this package."""
    return _job.get()


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
    costs one small all-reduce over TCP. A job that has called it once is asked
    this way, and gets --shutdown_timeout to leave.

    Error: a rank died, as in any collective.
    """
    d = _job.get()
    mine = lib.ddp_should_stop(d) != 0
    if lib.ddp_world(d) == 1:
        return mine
    flag = c_int32(mine)
    at = ctypes.byref(flag)
    call("ddp_comm_all_reduce", _job.comm(), at, at, 1, _I32, _MAX)
    return flag.value != 0
