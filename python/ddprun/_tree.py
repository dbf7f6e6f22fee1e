"""A tree of dicts, lists, numbers and tensors as JSON and named tensors.

What state_dict() gives and what people keep beside it comes back as it was: its
type, its order, each bit of a number. KINDS has the types. What is of another
one, a subclass for instance, is an Error that names its place. Nothing is
pickled, so a file of strangers runs no code.

What can be changed and occurs twice is written once and comes back as one. A
tensor stays where it is: only its place in the tree is written. Two of the same
memory (tied weights) are saved once. One whose memory is dense in another order
(channels_last) is saved in that order, without a copy.

Where each rank has pieces of the state (`pieces`) a sharded tensor has but a name
in the tree, and all tensors have the shapes that other readers of the files expect:
their own order, and one dim at least. How the memory lay is noted.

Not kept: the graph of a tensor, attributes that a program gave to it, and what
parts of a memory two tensors or arrays share.
"""

from __future__ import annotations

import base64
import ctypes
import json
import re
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Callable, Iterator, NamedTuple, Optional, Protocol, Union

import torch

from ._libddp import DIMS_MAX, NAME_MAX, usage
from ._shards import is_sharded, parts_of

MARK = "#"  # the key of what JSON has no word for
DEPTH_MAX = 100  # of containers in each other
OWN_NAMES = ("ddprun.structure", "ddp.ranks")  # of no tensor of a tree

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

FACTORIES = {factory.__name__: factory for factory in (list, dict, set, int, float, str, bool, tuple)}

Json = Any
Mark = dict[str, Any]


def bytes_of(t: torch.Tensor) -> bytes:
    """Those of a contiguous tensor in host memory, without numpy."""
    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size()) if t.numel() > 0 else b""


# -- text and numbers ----------------------------------------------------------

_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_json(x: Any) -> bool:
    """Whether the text of JSON has all of it: not the bits of a NaN, no integer
    of thousands of digits, no halves of a character."""
    kind = type(x)
    if kind is str:
        return _SURROGATE.search(x) is None
    if kind is float:
        return bool(x == x)
    return x is None or kind is bool or (kind is int and x.bit_length() <= 64)


def _base64(x: "Union[bytes, bytearray]") -> str:
    return base64.b64encode(x).decode()


def _read_dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch.{name} is no dtype")
    return found


# -- containers ----------------------------------------------------------------


def _below(at: str, key: Any) -> str:
    try:
        return f"{at}.{key}" if at else str(key)
    except ValueError:  # of thousands of digits
        return f"{at}.?"


def _items(w: "Writer", x: "dict[Any, Any]", at: str) -> Json:
    """An object, or pairs if there are other keys than JSON has."""
    if all(type(k) is str and k != MARK and _is_json(k) for k in x):
        return {k: w.write(v, _below(at, k)) for k, v in x.items()}
    return [[w.hashed(k, at), w.write(v, _below(at, k))] for k, v in x.items()]


def _pairs(r: "Reader", of: Json) -> "Iterator[tuple[Any, Any]]":
    pairs = of.items() if isinstance(of, dict) else of
    return ((r.read(k), r.read(v)) for k, v in pairs)


def _write_mapping(w: "Writer", x: Any, at: str) -> Mark:
    """What torch keeps beside the items of a state_dict, too."""
    mark = {"of": _items(w, x, at)}
    if vars(x):
        mark["vars"] = _items(w, vars(x), at)
    return mark


def _read_mapping(r: "Reader", mark: Mark, made: Any) -> Any:
    for k, v in _pairs(r, mark["of"]):
        made[k] = v
    vars(made).update(_pairs(r, mark.get("vars", {})))
    return made


def _write_defaultdict(w: "Writer", x: "defaultdict[Any, Any]", at: str) -> Mark:
    factory = x.default_factory
    name = None if factory is None else factory.__name__ if factory in FACTORIES.values() else ""
    if name == "":
        raise usage(f"{at}: a defaultdict that makes {factory!r} cannot be kept; one of {', '.join(FACTORIES)} can")
    return {"factory": name, "of": _items(w, x, at)}


def _read_defaultdict(r: "Reader", mark: Mark) -> Any:
    factory = mark["factory"]
    return defaultdict(None if factory is None else FACTORIES[factory], _pairs(r, mark["of"]))


def _write_sequence(w: "Writer", x: Any, at: str) -> Mark:
    return {"of": [w.write(v, f"{at}.{i}") for i, v in enumerate(x)]}


def _write_set(w: "Writer", x: Any, at: str) -> Mark:
    """In an order that is the same on all ranks."""
    return {"of": sorted((w.hashed(v, at) for v in x), key=json.dumps)}


def _merged_items(p: "Filler", mine: Any, saved: Any) -> "list[tuple[Any, Any]]":
    return [(k, p.put(mine[k], v) if k in mine else v) for k, v in saved.items()]


def _fill_mapping(p: "Filler", mine: Any, saved: Any) -> bool:
    items = _merged_items(p, mine, saved)
    mine.clear()
    for k, v in items:
        mine[k] = v
    if isinstance(mine, defaultdict):
        mine.default_factory = saved.default_factory
    elif type(mine) is not dict:
        items = _merged_items(p, vars(mine), vars(saved))
        vars(mine).clear()
        vars(mine).update(items)
    return True


def _merged(p: "Filler", mine: Any, saved: Any) -> "list[Any]":
    """The values of a sequence, in the objects of `mine` as far as they go."""
    return [p.put(m, s) for m, s in zip(mine, saved)] + list(saved)[len(mine) :]


def _fill_list(p: "Filler", mine: "list[Any]", saved: "list[Any]") -> bool:
    mine[:] = _merged(p, mine, saved)
    return True


def _fill_deque(p: "Filler", mine: "deque[Any]", saved: "deque[Any]") -> bool:
    if mine.maxlen != saved.maxlen:
        return False
    values = _merged(p, mine, saved)
    mine.clear()
    mine.extend(values)
    return True


def _fill_set(_: "Filler", mine: "set[Any]", saved: "set[Any]") -> bool:
    mine.clear()
    mine.update(saved)
    return True


def _fill_bytearray(_: "Filler", mine: bytearray, saved: bytearray) -> bool:
    mine[:] = saved
    return True


# -- tensors -------------------------------------------------------------------


def dense_order(t: torch.Tensor) -> Optional[list[int]]:
    """The order of dims in which the memory of `t` is dense; None: in none."""
    strides = t.stride()
    order = sorted(range(t.dim()), key=lambda i: (-strides[i], i))
    return order if t.permute(order).is_contiguous() else None


def _memory(t: torch.Tensor) -> "tuple[Any, ...]":
    """Equal for tensors that show the same elements, as long as both live."""
    return (t.data_ptr(), t.dtype, t.shape, t.stride(), t.device, t.is_conj(), t.is_neg())


def _check_tensor(t: torch.Tensor, at: str) -> None:
    if t.layout != torch.strided or t.is_quantized or t.is_nested or t.device.type == "meta":
        raise usage(f"{at}: a tensor of layout {t.layout} on {t.device} cannot be kept")
    if t.dim() > DIMS_MAX - int(t.is_complex()):
        raise usage(f"{at}: a tensor of {t.dim()} dims cannot be kept; {DIMS_MAX} are the most")
    if not t.is_complex() and t.dtype not in DTYPES:
        raise usage(f"{at}: a tensor of {t.dtype} cannot be kept")


def _write_tensor(w: "Writer", t: torch.Tensor, at: str) -> Mark:
    _check_tensor(t, at)
    return w.store(t.detach(), at)


def _write_parameter(w: "Writer", t: torch.Tensor, at: str) -> Mark:
    return {"grad": t.requires_grad, **_write_tensor(w, t, at)}


def _read_parameter(r: "Reader", mark: Mark) -> Any:
    return torch.nn.Parameter(r.stored(mark), requires_grad=mark["grad"])


def _fill_tensor(_: "Filler", mine: torch.Tensor, saved: torch.Tensor) -> bool:
    if mine.dtype != saved.dtype or mine.shape != saved.shape:
        return False
    try:
        with torch.no_grad():
            mine.copy_(saved)
        if type(mine) is torch.nn.Parameter:
            mine.requires_grad_(saved.requires_grad)
    except RuntimeError:  # its elements share memory, or it is one of inference mode
        return False
    return True


def _write_sharded(w: "Writer", x: Any, at: str) -> Mark:
    if not w.pieces:
        raise usage(
            f"{at}: a sharded {type(x).__name__} cannot be kept here; what is sharded must be in a model, an optimizer "
            "or extra when ddprun.snapshot is called"
        )
    if x.dtype not in DTYPES or len(x.shape) > DIMS_MAX:
        raise usage(f"{at}: a sharded tensor of {x.dtype} and {len(x.shape)} dims cannot be kept")
    return w.store_sharded(x, at)


def _fill_sharded(_: "Filler", mine: Any, saved: Any) -> bool:
    if mine.dtype != saved.dtype or mine.shape != saved.shape:
        return False
    with torch.no_grad():
        for here, there in zip(parts_of(mine), parts_of(saved, mine)):
            here.local.copy_(there.local)
    return True


# -- numpy, if the program has it ----------------------------------------------


def _write_array(w: "Writer", x: Any, at: str) -> Mark:
    """As bytes: torch has not all of its types, nor the other order of bytes."""
    numpy = sys.modules["numpy"]
    x = numpy.asarray(x)
    dtype = x.dtype
    known = dtype.kind in "biufcmMSU" and dtype.char not in "gG" and dtype.itemsize > 0
    if not known or dtype.metadata:
        raise usage(f"{at}: an array of numpy of dtype {dtype} cannot be kept")
    code = dtype.str if dtype.kind in "mMSU" else dtype.str[0] + dtype.char
    flat = numpy.ascontiguousarray(x.reshape(-1, order="A")).view(numpy.uint8)
    mark = {"dtype": code, "shape": list(x.shape), "order": "F" if x.flags.fnc else "C"}
    return {**mark, "bytes": w.store(torch.from_numpy(flat if flat.flags.writeable else flat.copy()), at)}


def _fill_array(_: "Filler", mine: Any, saved: Any) -> bool:
    if mine.dtype != saved.dtype or mine.shape != saved.shape or not mine.flags.writeable:
        return False
    mine[...] = saved
    return True


# -- the table -----------------------------------------------------------------


class Kind(NamedTuple):
    """Values of one type: what their mark has besides `name`; such a value again;
    and for those that can be changed whether `mine` could take the content of
    `saved`."""

    type: Any
    name: str
    write: Callable[["Writer", Any, str], Mark]
    read: Callable[["Reader", Mark], Any]
    fill: Optional[Callable[["Filler", Any, Any], bool]] = None


# fmt: off
KINDS = (  # the marks of lists, and of dicts whose keys are text, are left out
    Kind(list, "list", _write_sequence, lambda r, m: r.all_of(m), _fill_list),
    Kind(dict, "dict", lambda w, x, at: {"of": _items(w, x, at)}, lambda r, m: dict(_pairs(r, m["of"])), _fill_mapping),
    Kind(OrderedDict, "OrderedDict", _write_mapping, lambda r, m: _read_mapping(r, m, OrderedDict()), _fill_mapping),
    Kind(Counter, "counter", _write_mapping, lambda r, m: _read_mapping(r, m, Counter()), _fill_mapping),
    Kind(defaultdict, "defaultdict", _write_defaultdict, _read_defaultdict, _fill_mapping),
    Kind(deque, "deque", lambda w, x, at: {"max": x.maxlen, **_write_sequence(w, x, at)},
         lambda r, m: deque(r.all_of(m), m["max"]), _fill_deque),
    Kind(set, "set", _write_set, lambda r, m: set(r.all_of(m)), _fill_set),
    Kind(frozenset, "frozenset", _write_set, lambda r, m: frozenset(r.all_of(m))),
    Kind(tuple, "tuple", _write_sequence, lambda r, m: tuple(r.all_of(m))),
    Kind(torch.Size, "Size", _write_sequence, lambda r, m: torch.Size(m["of"])),
    Kind(int, "int", lambda w, x, at: {"of": f"{x:x}"}, lambda r, m: int(m["of"], 16)),
    Kind(float, "float", lambda w, x, at: {"of": struct.pack(">d", x).hex()},
         lambda r, m: struct.unpack(">d", bytes.fromhex(m["of"]))[0]),
    Kind(complex, "complex", lambda w, x, at: _write_sequence(w, (x.real, x.imag), at),
         lambda r, m: complex(*r.all_of(m))),
    Kind(str, "str", lambda w, x, at: {"of": _base64(x.encode("utf-8", "surrogatepass"))},
         lambda r, m: base64.b64decode(m["of"]).decode("utf-8", "surrogatepass")),
    Kind(bytes, "bytes", lambda w, x, at: {"of": _base64(x)}, lambda r, m: base64.b64decode(m["of"])),
    Kind(bytearray, "bytearray", lambda w, x, at: {"of": _base64(x)},
         lambda r, m: bytearray(base64.b64decode(m["of"])), _fill_bytearray),
    Kind(torch.dtype, "dtype", lambda w, x, at: {"of": str(x).split(".")[1]}, lambda r, m: _read_dtype(m["of"])),
    Kind(torch.device, "device", lambda w, x, at: {"of": str(x)}, lambda r, m: torch.device(m["of"])),
    Kind(torch.Tensor, "tensor", _write_tensor, lambda r, m: r.stored(m), _fill_tensor),
    Kind(torch.nn.Parameter, "parameter", _write_parameter, _read_parameter, _fill_tensor),
)
# fmt: on
ARRAY = Kind(None, "array", _write_array, lambda r, m: r.array(m), _fill_array)
SCALAR = Kind(None, "scalar", _write_array, lambda r, m: r.array(m)[()])
SHARDED = Kind(None, "sharded", _write_sharded, lambda r, m: r.stored(m), _fill_sharded)
NUMPY_0_2 = Kind(None, "numpy", _write_array, lambda r, m: r.stored(m["of"]).numpy()[()])  # is only read

_BY_TYPE = {kind.type: kind for kind in KINDS}
_BY_NAME = {kind.name: kind for kind in (*KINDS, ARRAY, SCALAR, SHARDED, NUMPY_0_2)}


def kind_of(x: Any) -> Optional[Kind]:
    """None: it is not in the table."""
    found = _BY_TYPE.get(type(x))
    if found is None and is_sharded(x):
        return SHARDED
    if found is not None or "numpy" not in sys.modules:
        return found
    numpy = sys.modules["numpy"]
    if type(x) is numpy.ndarray:
        return ARRAY
    # A scalar of text is text that an array would cut.
    return SCALAR if isinstance(x, numpy.generic) and x.dtype.kind in "biufcmM" else None


# -- to and from JSON ----------------------------------------------------------


class Writer:
    """Writes trees as JSON, and collects their tensors by the names that are in
    it; with `inline` there are none, and the JSON has their bytes. With `pieces`
    sharded tensors are among them."""

    def __init__(self, inline: bool = False, pieces: bool = False) -> None:
        self.inline, self.pieces = inline, pieces
        self.tensors: dict[str, Any] = {}
        # What has been written. It is kept: state_dict() makes objects that die
        # at once, and the next one has the address, or the memory, of the last.
        self._memories: dict[tuple[Any, ...], tuple[torch.Tensor, Mark]] = {}
        self._objects: dict[int, tuple[Any, int]] = {}  # by id(): its number; -1: it is being written
        self._numbers = self._depth = 0
        self._hashes = False

    def write(self, x: Any, at: str) -> Json:
        """The JSON of a tree; `at` is its place in errors and names."""
        if _is_json(x):
            return x
        kind = kind_of(x)
        if kind is None:
            raise usage(
                f"{at}: a {type(x).__name__} ({type(x).__module__}.{type(x).__qualname__}) cannot be kept; give tensors, "
                "numbers, text, lists and dicts, or something with state_dict() and load_state_dict()"
            )
        if self._depth == DEPTH_MAX:
            raise usage(f"{at}: a {kind.name} within {DEPTH_MAX} others cannot be kept")
        self._depth += 1
        written = self._marked(kind, x, at) if kind.fill is None else self._once(kind, x, at)
        self._depth -= 1
        return written

    def _marked(self, kind: Kind, x: Any, at: str) -> Json:
        mark = kind.write(self, x, at)
        if kind.type is list or (kind.type is dict and isinstance(mark["of"], dict)):
            return mark["of"]
        return {MARK: kind.name, **mark}

    def _once(self, kind: Kind, x: Any, at: str) -> Json:
        """Of what can be changed: the second time only its number."""
        if self._hashes:
            raise usage(f"{at}: a {kind.name} in a set or in a key cannot be kept: nobody could find it again")
        _, number = self._objects.get(id(x), (None, None))
        if number == -1:
            raise usage(f"{at}: a {kind.name} that contains itself cannot be kept")
        if number is not None:
            return {MARK: "again", "of": number}
        self._objects[id(x)] = (x, -1)
        written = self._marked(kind, x, at)
        self._objects[id(x)] = (x, self._numbers)
        self._numbers += 1
        return written

    def hashed(self, x: Any, at: str) -> Json:
        """Of what is in a set or a key: that must be found by its value."""
        before, self._hashes = self._hashes, True
        written = self.write(x, at)
        self._hashes = before
        return written

    def store(self, t: torch.Tensor, at: str) -> Mark:
        """Where its elements are, and how they lie there."""
        key = _memory(t)
        if t.numel() > 0 and key in self._memories:
            return self._memories[key][1]
        given, mark = t, Mark()
        if t.is_complex():
            mark["complex"] = True
            t = torch.view_as_real(t.resolve_conj())
        if t.is_neg() or t.device.type not in ("cpu", "cuda"):
            t = t.resolve_neg().cpu()
        order = dense_order(t)
        if self.pieces and t.dim() == 0:
            mark["scalar"] = True
            t = t.reshape(1)
        if order is not None and order != sorted(order) and t.numel() > 0:
            # Of what has pieces in another world the shape is kept.
            mark["lies" if self.pieces else "order"] = order
            t = t if self.pieces else t.permute(order)
        if self.pieces or order is None:
            t = t.contiguous()
        if self.inline:
            t = t.contiguous().cpu()
            mark["dtype"], mark["shape"] = DTYPES[t.dtype], list(t.shape)
            mark["data"] = _base64(bytes_of(t))
        else:
            mark["of"] = self._name(at)
            self.tensors[mark["of"]] = t
        self._memories[key] = (given, mark)
        return mark

    def store_sharded(self, x: Any, at: str) -> Mark:
        name = self._name(at)
        self.tensors[name] = x
        return {"of": name}

    def _name(self, at: str) -> str:
        """A name for the tensor at `at` that libddp takes and nobody has."""
        base = at.encode(errors="replace").replace(b"\0", b"?")
        if len(base) >= NAME_MAX - 16:
            base = base[-NAME_MAX // 2 :]
        name, n = base.decode(errors="ignore"), 1
        while name in self.tensors or name in OWN_NAMES:
            n += 1
            name = f"{base.decode(errors='ignore')}~{n}"
        return name


class Reader:
    """Reads what one Writer wrote, in the same order."""

    def __init__(self, tensors: "dict[str, torch.Tensor]") -> None:
        self.tensors = tensors
        self._made: list[Any] = []  # what can be changed, by its number

    def read(self, x: Json) -> Any:
        """The tree again."""
        if not isinstance(x, (list, dict)):
            return x
        name = "list" if isinstance(x, list) else x.get(MARK, "dict")
        if name == "again":
            return self._made[x["of"]]  # type: ignore[call-overload]
        kind = _BY_NAME[name]
        made = kind.read(self, x if isinstance(x, dict) and MARK in x else {"of": x})
        if kind.fill is not None:
            self._made.append(made)
        return made

    def all_of(self, mark: Mark) -> "list[Any]":
        return [self.read(x) for x in mark["of"]]

    def stored(self, mark: Mark) -> torch.Tensor:
        """A tensor as it was, from what was saved of it."""
        t = _inline(mark) if "data" in mark else self.tensors[mark["of"]]
        if mark.get("scalar"):
            t = t.reshape(())
        order: "list[int]" = mark.get("order") or mark.get("lies") or []
        if "lies" in mark:
            t = t.permute(order).contiguous()
        if order:
            t = t.permute([order.index(i) for i in range(len(order))])
        return torch.view_as_complex(t) if mark.get("complex") else t

    def array(self, mark: Mark) -> Any:
        """An array of numpy."""
        import numpy

        data = self.stored(mark["bytes"]).numpy()
        return numpy.ndarray(mark["shape"], mark["dtype"], buffer=data, order=mark["order"])


def _inline(mark: Mark) -> torch.Tensor:
    dtype, shape = DTYPE_OF[mark["dtype"]], mark["shape"]
    data = bytearray(base64.b64decode(mark["data"]))
    if not data:
        return torch.empty(shape, dtype=dtype, device="cpu")
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


# -- into the program's own objects --------------------------------------------


class Filler(Protocol):
    def put(self, mine: Any, saved: Any) -> Any:
        """What holds the value of `saved` from now on."""


class _InPlace:
    """Puts what was saved into the objects that a program has: it may have given
    them to others, which would go on with stale ones."""

    def __init__(self) -> None:
        self.holders: dict[int, tuple[Any, Any]] = {}  # by id() of what was saved: that, and the program's object
        self._taken: dict[Any, Any] = {}  # each of these holds one value

    def put(self, mine: Any, saved: Any) -> Any:
        """`mine`, if it is of the same type and, as tensors and arrays, of the
        same dtype and shape; else `saved`."""
        kind = kind_of(saved)
        if type(mine) is not type(saved) or kind is None:
            return saved
        if type(saved) is tuple:
            return tuple(_merged(self, mine, saved))
        if kind.fill is None:
            return saved
        if id(saved) not in self.holders:
            plain = isinstance(mine, torch.Tensor) and not is_sharded(mine)
            key = _memory(mine) if plain else id(mine)
            if key in self._taken:
                return saved
            self._taken[key] = mine
            if not kind.fill(self, mine, saved):
                return saved
            self.holders[id(saved)] = (saved, mine)
        return self.holders[id(saved)][1]


class _Settle:
    """Puts the program's objects also where it had none, but where the same was
    saved as in them."""

    def __init__(self, holders: "dict[int, tuple[Any, Any]]") -> None:
        self._holders = holders
        self._seen: dict[int, Any] = {}

    def put(self, _: Any, saved: Any) -> Any:
        holder = self._holders.get(id(saved), (saved, saved))[1]
        if type(holder) is tuple:
            return tuple(_merged(self, holder, holder))
        if isinstance(holder, (list, dict, deque)) and id(holder) not in self._seen:
            self._seen[id(holder)] = holder
            _BY_TYPE[type(holder)].fill(self, holder, holder)  # type: ignore[misc]
        return holder


def put_in_place(mine: Any, saved: Any) -> Any:
    """What holds the value of `saved` now, as far as possible in the objects that
    are in `mine`."""
    into = _InPlace()
    return _Settle(into.holders).put(None, into.put(mine, saved))
