"""libddp by ctypes: the types, the functions, and errors as exceptions.

The contract of each function is in ddp.h and ddp(3).
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from types import TracebackType
from typing import Any, Type

DIMS_MAX = 8
KV_MAX = 256
NAME_MAX = 256

# enum ddp_status, as far as this package looks at it.
USAGE, CONFLICT, NOINPUT, CORRUPT, NOMEM, IO, PEER, CONFIG = 2, 65, 66, 67, 71, 74, 77, 78

# How the text of ddp_keeper_save begins if it is of an earlier save.
EARLIER = "snapshot of step "


class Error(Exception):
    """What libddp or this package refuses, or what failed.

    `code` is ddp.h's; it is also the exit status of a program that such an
    error ends, and tells ddprun whether another attempt can help.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self._is_told = False
        _end_with_its_status()


def _end_with_its_status() -> None:
    """An Error that nobody catches: the interpreter takes the status of a SystemExit
    that its hook raises. It must be the outermost hook. PyTorch's, which each
    init_process_group puts around the one that it finds, prints only if that one
    returns."""
    before = sys.excepthook
    if getattr(before, "ends_with_its_status", False):
        return

    def hook(kind: Type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, Error) or error._is_told:
            before(kind, error, trace)
            return
        error._is_told = True  # an inner hook of this kind returns
        if error.code == PEER:  # the traceback of a rank that did nothing wrong comes first
            rank = os.environ.get("RANK", "0")
            print(f"rank {rank} ends because of another: {error} (ddprun tells how). Its own place:", file=sys.stderr)
        before(kind, error, trace)
        raise SystemExit(error.code)

    hook.ends_with_its_status = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def usage(text: str) -> Error:
    """An error of the caller's."""
    return Error(USAGE, text)


class DdpError(Structure):
    _fields_ = [("code", c_int), ("sys_errno", c_int), ("text", c_char * 512)]


class Tensor(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("dtype", c_int),
        ("dims", c_int),
        ("shape", c_uint64 * DIMS_MAX),
        ("data", c_void_p),
    ]


class Piece(Structure):
    _fields_ = [
        ("local", Tensor),
        ("whole", c_uint64 * DIMS_MAX),
        ("offset", c_uint64 * DIMS_MAX),
    ]


class Kv(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char * KV_MAX)]


class KeeperConf(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("folder", c_char_p),
        ("keep", c_int),
        ("no_memory", c_bool),
        ("load_only", c_bool),
        ("gpu", c_bool),
        ("stream", c_void_p),
        ("later", c_bool),
        ("room", c_void_p),
        ("room_len", c_size_t),
        ("rank_state_max", c_size_t),
        ("copies", c_int),
        ("check_every", c_int),
        ("may_differ", POINTER(c_char_p)),
    ]


class Kept(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("step", c_int64),
        ("round", c_int64),
        ("instance", c_char * 33),
        ("foreign", c_bool),
        ("memory", c_bool),
        ("rank", c_int),
        ("why", c_char * 512),
    ]


class SamplerConf(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("samples", c_uint64),
        ("rank", c_int),
        ("world", c_int),
        ("seed", c_uint64),
        ("shuffle", c_bool),
        ("drop_last", c_bool),
    ]


WantFn = CFUNCTYPE(c_bool, c_void_p, POINTER(Tensor), c_size_t, POINTER(Piece))

# name -> result, arguments. What can fail has a DdpError as the last argument.
_ERR = POINTER(DdpError)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "ddp_version": (c_int, [POINTER(c_char_p)]),
    "ddp_init": (c_void_p, [_ERR]),
    "ddp_free": (None, [c_void_p]),
    "ddp_rank": (c_int, [c_void_p]),
    "ddp_world": (c_int, [c_void_p]),
    "ddp_local_rank": (c_int, [c_void_p]),
    "ddp_local_world": (c_int, [c_void_p]),
    "ddp_group_rank": (c_int, [c_void_p]),
    "ddp_restart_count": (c_int, [c_void_p]),
    "ddp_round": (c_int64, [c_void_p]),
    "ddp_instance": (c_char_p, [c_void_p]),
    "ddp_run_id": (c_char_p, [c_void_p]),
    "ddp_strangers": (c_char_p, [c_void_p]),
    "ddp_beat": (None, [c_void_p, c_int64]),
    "ddp_should_stop": (c_int, [c_void_p]),
    "ddp_stop_on_signal": (c_int, [c_void_p, c_int, _ERR]),
    "ddp_comm_new": (c_void_p, [c_void_p, c_void_p, _ERR]),
    "ddp_comm_all_reduce": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _ERR],
    ),
    "ddp_comm_broadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_int, _ERR]),
    "ddp_comm_free": (None, [c_void_p]),
    "ddp_keeper_new": (c_void_p, [c_void_p, c_void_p, POINTER(KeeperConf), _ERR]),
    "ddp_keeper_save_pieces": (
        c_int,
        [c_void_p, c_int64, POINTER(Piece), c_size_t, POINTER(Kv), c_size_t, c_bool, _ERR],
    ),
    "ddp_keeper_settle": (None, [c_void_p]),
    "ddp_keeper_wait": (c_int, [c_void_p, _ERR]),
    "ddp_keeper_saved": (c_int64, [c_void_p]),
    "ddp_keeper_no_memory": (c_char_p, [c_void_p]),
    "ddp_keeper_mirrored": (c_int64, [c_void_p]),
    "ddp_keeper_skipped": (c_int64, [c_void_p]),
    "ddp_keeper_no_mirrors": (c_char_p, [c_void_p]),
    "ddp_keeper_unequal": (c_char_p, [c_void_p]),
    "ddp_keeper_load_pieces": (
        c_int,
        [c_void_p, WantFn, c_void_p, POINTER(Kv), c_size_t, POINTER(Kept), _ERR],
    ),
    "ddp_keeper_set_rank_state": (c_int, [c_void_p, c_char_p, c_size_t, _ERR]),
    "ddp_keeper_rank_state": (c_void_p, [c_void_p, c_int, POINTER(c_size_t)]),
    "ddp_keeper_free": (None, [c_void_p]),
    "ddp_tensor_len": (c_uint64, [POINTER(Tensor)]),
    "ddp_sampler_new": (c_void_p, [POINTER(SamplerConf), _ERR]),
    "ddp_sampler_free": (None, [c_void_p]),
    "ddp_sampler_seek": (c_int, [c_void_p, c_int64, c_int64, _ERR]),
    "ddp_sampler_next": (c_size_t, [c_void_p, POINTER(c_uint32), c_size_t]),
    "ddp_sampler_left": (c_uint64, [c_void_p]),
}


def _load() -> ctypes.CDLL:
    """$DDPRUN_LIBDDP names another library than the one of the package."""
    path = os.environ.get("DDPRUN_LIBDDP") or str(Path(__file__).with_name("libddp.so.1"))
    try:
        found = ctypes.CDLL(path)
    except OSError as e:
        raise Error(CONFIG, f"libddp cannot be loaded: {e}; install the wheel of ddprun again") from e
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


lib = _load()


def call(name: str, *arguments: Any) -> Any:
    """Calls what can fail; raises Error if it returns -1 or NULL."""
    err = DdpError()
    function = getattr(lib, name)
    result = function(*arguments, ctypes.byref(err))
    failed = result is None if function.restype is c_void_p else result != 0
    if failed:
        raise Error(err.code, err.text.decode(errors="replace"))
    return result


def version() -> str:
    """That of the library."""
    text = c_char_p()
    lib.ddp_version(ctypes.byref(text))
    return (text.value or b"").decode()
