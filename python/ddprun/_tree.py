"""A tree of dicts, lists, numbers and tensors as JSON and named tensors.

What state_dict() gives and what people keep beside it comes back as it was:
tuples, ints as keys, NaN, bytes, arrays of numpy. Nothing is pickled, so a file
of strangers runs no code. What cannot be kept is an Error that names its place.

A tensor stays where it is: only its place in the tree is written. One that
occurs twice (tied weights) is saved once. One whose memory is dense in another
order (channels_last) is saved in that order, without a copy.
"""

from __future__ import annotations

import base64
import collections
import ctypes
import sys
from typing import Any, Callable, Iterator, Optional

import torch

from ._libddp import DIMS_MAX, NAME_MAX, usage

MARK = "#"  # the key of what JSON has no word for

# torch.dtype -> enum ddp_dtype. Complex numbers travel as pairs.
DTYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number
    for name, number in {
        "float64": 1,
        "float32": 2,
        "float16": 3,
        "bfloat16": 4,
        "int64": 5,
        "int32": 6,
        "int16": 7,
        "int8": 8,
        "uint8": 9,
        "bool": 10,
        "float8_e4m3fn": 11,
        "float8_e5m2": 12,
        "uint64": 13,
        "uint32": 14,
        "uint16": 15,
    }.items()
    if hasattr(torch, name)
}
DTYPE_OF = {number: dtype for dtype, number in DTYPES.items()}


def dense_order(t: torch.Tensor) -> Optional[list[int]]:
    """The order of dims in which the memory of `t` is dense; None: in none."""
    strides = t.stride()
    order = sorted(range(t.dim()), key=lambda i: (-strides[i], i))
    return order if t.permute(order).is_contiguous() else None


def bytes_of(t: torch.Tensor) -> bytes:
    """Those of a contiguous tensor in host memory, without numpy."""
    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()) if t.numel() > 0 else b""


def _check_kind(t: torch.Tensor, at: str) -> None:
    if t.layout != torch.strided or t.is_quantized or t.device.type == "meta":
        raise usage(f"{at}: a tensor of layout {t.layout} on {t.device} cannot be kept")
    if type(t).__name__ == "DTensor":
        raise usage(f"{at}: a sharded tensor (DTensor) cannot be kept yet")
    if t.dim() > DIMS_MAX - int(t.is_complex()):
        raise usage(f"{at}: a tensor of {t.dim()} dims cannot be kept; {DIMS_MAX} are the most")
    if not t.is_complex() and t.dtype not in DTYPES:
        raise usage(f"{at}: a tensor of {t.dtype} cannot be kept")


class Writer:
    """Writes trees as JSON, and collects their tensors by the names that are in
    it; with `inline` there are none, and the JSON has their bytes."""

    def __init__(self, inline: bool = False) -> None:
        self.inline = inline
        self.tensors: dict[str, torch.Tensor] = {}
        self.seen: dict[tuple[Any, ...], dict[str, Any]] = {}

    def name(self, at: str) -> str:
        """A name for the tensor at `at` that libddp takes and nobody has."""
        name = at
        if len(at.encode()) >= NAME_MAX - 16:
            name = at.encode()[-NAME_MAX // 2 :].decode(errors="ignore")
        base, n = name, 1
        while name in self.tensors:
            n += 1
            name = f"{base}~{n}"
        return name

    def tensor(self, t: torch.Tensor, at: str) -> dict[str, Any]:
        _check_kind(t, at)
        t = t.detach()
        key = (t.data_ptr(), t.dtype, t.shape, t.stride(), t.device)
        if t.numel() > 0 and key in self.seen:
            return self.seen[key]
        mark: dict[str, Any] = {MARK: "tensor"}
        if t.is_complex():
            mark["complex"] = True
            t = torch.view_as_real(t.resolve_conj())
        if t.is_neg() or t.device.type not in ("cpu", "cuda"):
            t = t.resolve_neg().cpu()
        order = dense_order(t)
        if order is None:
            t = t.contiguous()
        elif order != sorted(order):
            mark["order"] = order
            t = t.permute(order)
        if self.inline:
            t = t.contiguous().cpu()
            mark["dtype"], mark["shape"] = DTYPES[t.dtype], list(t.shape)
            mark["data"] = base64.b64encode(bytes_of(t)).decode()
        else:
            mark["of"] = self.name(at)
            self.tensors[mark["of"]] = t
        if t.numel() > 0:
            self.seen[key] = mark
        return mark

    def mapping(self, x: "dict[Any, Any]", at: str) -> Any:
        kind = "counter" if isinstance(x, collections.Counter) else "dict"
        if kind == "dict" and all(isinstance(k, str) and k != MARK for k in x):
            return {k: self.write(v, f"{at}.{k}") for k, v in x.items()}
        return {
            MARK: kind,
            "of": [[self.write(k, at), self.write(v, f"{at}.{k}")] for k, v in x.items()],
        }

    def sequence(self, x: Any, at: str) -> list[Any]:
        return [self.write(v, f"{at}.{i}") for i, v in enumerate(x)]

    def write(self, x: Any, at: str) -> Any:
        """The JSON of a tree; `at` is its place in errors and names."""
        if x is None or type(x) in (bool, int, float, str):
            return x
        if isinstance(x, torch.Tensor):
            return self.tensor(x, at)
        if isinstance(x, dict):
            return self.mapping(x, at)
        if type(x) is list or isinstance(x, collections.deque):
            return self.sequence(x, at)
        if isinstance(x, tuple):  # torch.Size is one
            return {MARK: "tuple", "of": self.sequence(x, at)}
        if isinstance(x, (set, frozenset)):
            return {MARK: "set", "of": self.sequence(sorted(x), at)}
        if isinstance(x, (bytes, bytearray)):
            return {MARK: "bytes", "of": base64.b64encode(bytes(x)).decode()}
        if isinstance(x, complex):
            return {MARK: "complex", "of": [x.real, x.imag]}
        if isinstance(x, torch.dtype):
            return {MARK: "dtype", "of": str(x).split(".")[1]}
        if isinstance(x, torch.device):
            return {MARK: "device", "of": str(x)}
        return self.of_numpy(x, at)

    def of_numpy(self, x: Any, at: str) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
            try:
                return {MARK: "numpy", "of": self.tensor(torch.from_numpy(numpy.array(x)), at)}
            except TypeError:
                pass  # of strings or objects
        raise usage(
            f"{at}: a {type(x).__name__} cannot be kept; give tensors, numbers, text, lists and dicts, "
            "or something with state_dict() and load_state_dict()"
        )


def restored(mark: "dict[str, Any]", stored: torch.Tensor) -> torch.Tensor:
    """A tensor as it was, from what was saved of it."""
    if "order" in mark:
        order = mark["order"]
        stored = stored.permute([order.index(i) for i in range(len(order))])
    return torch.view_as_complex(stored) if mark.get("complex") else stored


def _inline(mark: "dict[str, Any]") -> torch.Tensor:
    dtype, shape = DTYPE_OF[mark["dtype"]], mark["shape"]
    data = bytearray(base64.b64decode(mark["data"]))
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


def unflatten(json: Any, tensors: "dict[str, torch.Tensor]") -> Any:
    """The tree again."""

    def all_of(x: Any) -> Iterator[Any]:
        return (read(v) for v in x)

    kinds: dict[str, Callable[[Any], Any]] = {
        "tensor": lambda m: restored(m, _inline(m) if "data" in m else tensors[m["of"]]),
        "numpy": lambda m: read(m["of"]).numpy()[()],
        "dict": lambda m: {read(k): read(v) for k, v in m["of"]},
        "counter": lambda m: collections.Counter({read(k): read(v) for k, v in m["of"]}),
        "tuple": lambda m: tuple(all_of(m["of"])),
        "set": lambda m: set(all_of(m["of"])),
        "bytes": lambda m: base64.b64decode(m["of"]),
        "complex": lambda m: complex(*m["of"]),
        "dtype": lambda m: getattr(torch, m["of"]),
        "device": lambda m: torch.device(m["of"]),
    }

    def read(x: Any) -> Any:
        if isinstance(x, list):
            return list(all_of(x))
        if not isinstance(x, dict):
            return x
        if MARK in x:
            return kinds[x[MARK]](x)
        return {k: read(v) for k, v in x.items()}

    return read(json)
