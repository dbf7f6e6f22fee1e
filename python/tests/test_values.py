"""Random trees of all kinds of values come back exactly: each type, each bit,
each order, and what occurs twice as one.

TREES=10000 asks for so many; each run of 300 has the same ones."""

from __future__ import annotations

import copy
import json
import os
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
import torch

import ddprun
from ddprun._tree import FACTORIES, KINDS, Reader, Writer, put_in_place

numpy = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

TREES = int(os.environ.get("TREES", 300))
many = settings(
    max_examples=TREES,
    derandomize=TREES == 300,
    deadline=None,
    phases=[Phase.generate],  # to make a tree smaller takes minutes
    database=None,
    suppress_health_check=list(HealthCheck),
)

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")

# -- what there is -------------------------------------------------------------

FLOATS = st.one_of(st.floats(), st.binary(min_size=8, max_size=8).map(lambda b: struct.unpack("<d", b)[0]))
INTS = st.one_of(st.integers(), st.integers(-3, 3).map(lambda n: n * 7**90))
TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=4)
COMPLEX = st.tuples(FLOATS, FLOATS).map(lambda x: complex(*x))
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int8])
DEVICES = st.sampled_from(["cpu", "meta", "cuda:1"]).map(torch.device)
SHAPES = st.lists(st.integers(0, 3), max_size=4)

TENSOR_DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.complex32, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint64, torch.uint32, torch.uint16,
]  # fmt: skip
ARRAY_DTYPES = [
    "<f8", ">f8", "<f4", ">f4", "<f2", ">f2", "<i8", ">i8", "<q", ">q", "<i4", ">i4", ">i2", "|i1", "<u8", ">u8", "<u4",
    ">u2", "|u1", "|b1", "<c8", ">c8", "<c16", ">c16", "<M8[ns]", ">M8[D]", "<m8[us]", "<M8[25s]", "|S3", "<U2", ">U2",
]  # fmt: skip


@st.composite
def tensors(draw: Any) -> torch.Tensor:
    dtype, shape = draw(st.sampled_from(TENSOR_DTYPES)), draw(SHAPES)
    kind = draw(st.sampled_from(["plain", "turned", "every second", "expanded", "channels_last", "conj", "imag", "parameter"]))
    room = [2 * n for n in shape] if kind == "every second" else shape
    if kind == "channels_last":
        room = shape = [*shape, 1, 2, 3, 2][:4]
    n = torch.empty(room, dtype=dtype).nbytes
    data = bytearray(draw(st.binary(min_size=n, max_size=n)))
    if dtype == torch.bool:
        data = bytearray(b & 1 for b in data)
    t = torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(room) if n else torch.empty(room, dtype=dtype)
    if kind == "turned":
        return t.permute(draw(st.permutations(range(t.dim()))))
    if kind == "every second":
        return t[tuple(slice(None, None, 2) for _ in room)]
    if kind == "expanded":
        return t.unsqueeze(0).expand(3, *shape)
    if kind == "channels_last":
        return t.contiguous(memory_format=torch.channels_last)
    if kind in ("conj", "imag") and dtype in (torch.complex64, torch.complex128):
        return t.conj() if kind == "conj" else t.conj().imag
    if kind == "parameter":
        return torch.nn.Parameter(t, requires_grad=dtype.is_floating_point and draw(st.booleans()))
    return t


@st.composite
def arrays(draw: Any, scalar: bool = False) -> Any:
    dtype = numpy.dtype(draw(st.sampled_from([d for d in ARRAY_DTYPES if not scalar or d[1] not in "SU"])))
    shape = [] if scalar else draw(SHAPES)
    n = int(numpy.prod(shape)) * dtype.itemsize
    data = bytearray(draw(st.binary(min_size=n, max_size=n)))
    if dtype.kind == "b":
        data = bytearray(b & 1 for b in data)
    if dtype.kind == "U":
        data = bytearray(numpy.full(shape, draw(st.sampled_from(["", "ä", "ab"])), dtype).tobytes())
    x = numpy.ndarray(shape, dtype, buffer=data, order=draw(st.sampled_from("CF")))
    if scalar:
        return x[()]
    return x[::-1] if shape and draw(st.booleans()) else x


SCALARS = arrays(scalar=True)
HASHED = st.recursive(
    st.one_of(st.none(), st.booleans(), INTS, FLOATS, TEXT, COMPLEX, st.binary(max_size=4), DTYPES, DEVICES, SCALARS),
    lambda x: st.one_of(st.lists(x, max_size=3).map(tuple), st.frozensets(x, max_size=3)),
    max_leaves=3,
)
LEAVES = st.one_of(HASHED, st.binary(max_size=4).map(bytearray), SHAPES.map(torch.Size), tensors(), arrays())


def with_vars(x: Any, names: "dict[str, Any]") -> Any:
    vars(x).update(names)
    return x


def filled(x: Any, items: "dict[Any, Any]") -> Any:
    for k, v in items.items():
        x[k] = v
    return x


def containers(x: Any) -> Any:
    dicts = st.one_of(st.dictionaries(TEXT, x, max_size=4), st.dictionaries(HASHED, x, max_size=4))
    names = st.dictionaries(st.sampled_from(["_metadata", "a"]), x, max_size=1)
    lists = st.lists(x, max_size=4)
    factories = st.sampled_from([None, *FACTORIES.values()])
    return st.one_of(
        lists,
        lists.map(tuple),
        st.sets(HASHED, max_size=4),
        st.builds(deque, lists, st.one_of(st.none(), st.integers(0, 5))),
        dicts,
        st.builds(filled, st.builds(defaultdict, factories), dicts),
        st.builds(with_vars, st.builds(lambda d: filled(OrderedDict(), d), dicts), names),
        st.builds(with_vars, st.builds(lambda d: filled(Counter(), d), dicts), names),
    )


# Some of what a tree has occurs in several places of it.
PARTS = st.recursive(LEAVES, containers, max_leaves=4)
TREES_OF = st.recursive(st.one_of(LEAVES, *(st.shared(PARTS, key=key) for key in "ab")), containers, max_leaves=12)


# -- are two the same? ---------------------------------------------------------


def bits(t: torch.Tensor) -> bytes:
    if t.is_complex():
        t = torch.view_as_real(t.resolve_conj())
    t = t.detach().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return t.view(torch.uint8).numpy().tobytes()


def layout(t: torch.Tensor) -> Any:
    """How a tensor lies in memory, as far as that is kept."""
    order = sorted((i for i in range(t.dim()) if t.shape[i] > 1), key=lambda i: (-t.stride(i), i))
    dense = t.permute(sorted(range(t.dim()), key=lambda i: (-t.stride(i), i))).is_contiguous()
    return order if dense and t.numel() else None


class Same:
    """exact(a, b): equal in all that is kept; each object of a is one of b."""

    def __init__(self) -> None:
        self.pairs: dict[int, int] = {}

    def exact(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        mutable = any(k.type is type(a) and k.fill for k in KINDS) or type(a) is numpy.ndarray
        if mutable:
            if id(a) in self.pairs:
                return self.pairs[id(a)] == id(b)
            if id(b) in self.pairs.values():
                return False
            self.pairs[id(a)] = id(b)
        if isinstance(a, torch.Tensor):
            return self.tensor(a, b)
        if isinstance(a, (numpy.ndarray, numpy.generic)):
            same = (a.dtype.str, a.dtype.char, a.shape) == (b.dtype.str, b.dtype.char, b.shape)
            return same and a.tobytes() == b.tobytes() and (a.ndim < 2 or a.flags.fnc == b.flags.fnc or not a.flags.fnc)
        if isinstance(a, float):
            return struct.pack("d", a) == struct.pack("d", b)
        if isinstance(a, complex):
            return self.exact(a.real, b.real) and self.exact(a.imag, b.imag)
        if isinstance(a, (set, frozenset)):
            return sorted(map(key_of, a)) == sorted(map(key_of, b))
        if isinstance(a, dict):
            return self.mapping(a, b)
        if isinstance(a, deque) and a.maxlen != b.maxlen:
            return False
        if isinstance(a, (list, tuple, deque)):
            return len(a) == len(b) and all(map(self.exact, a, b))
        return bool(a == b)

    def tensor(self, a: Any, b: Any) -> bool:
        same = (a.dtype, a.shape, bits(a)) == (b.dtype, b.shape, bits(b))
        grad = not isinstance(a, torch.nn.Parameter) or a.requires_grad == b.requires_grad
        return same and grad and (layout(a) is None or layout(a) == layout(b))

    def mapping(self, a: Any, b: Any) -> bool:
        if isinstance(a, defaultdict) and a.default_factory is not b.default_factory:
            return False
        keys = [key_of(k) for k in a] == [key_of(k) for k in b]
        inner = keys and all(map(self.exact, a.values(), b.values()))
        return inner and self.exact(getattr(a, "__dict__", None), getattr(b, "__dict__", None))


def key_of(x: Any) -> str:
    """Text that tells values apart which == does not."""
    if isinstance(x, (set, frozenset)):
        return f"{type(x)}{sorted(map(key_of, x))}"
    if isinstance(x, tuple):
        return f"{type(x)}{[key_of(v) for v in x]}"
    if isinstance(x, numpy.generic):
        return f"{type(x)}{x.dtype.char}{x.tobytes()!r}"
    if isinstance(x, complex):
        return f"complex{key_of(x.real)}{key_of(x.imag)}"
    if isinstance(x, float):
        return f"float{struct.pack('d', x)!r}"
    return f"{type(x)}{hex(x) if isinstance(x, int) else repr(x)}"


def back(tree: Any, inline: bool) -> Any:
    writer = Writer(inline)
    text = json.dumps(writer.write(tree, "x"))
    tensors = {name: t.contiguous().clone() for name, t in writer.tensors.items()}
    assert all(t.is_contiguous() for t in writer.tensors.values())
    return Reader(tensors).read(json.loads(text))


@many
@given(TREES_OF, st.booleans())
def test_a_tree_comes_back_exactly(tree: Any, inline: bool) -> None:
    assert Same().exact(tree, back(tree, inline))


@many
@given(TREES_OF, TREES_OF, st.booleans())
def test_a_tree_comes_back_into_objects_of_the_program(tree: Any, other: Any, alike: bool) -> None:
    """Of another tree, or of one that was like it."""
    mine = copy.deepcopy(tree if alike else other)
    holder = put_in_place(mine, back(tree, True))
    assert Same().exact(tree, holder)
    if type(mine) is type(tree) and isinstance(tree, (list, dict, set, bytearray)):
        assert holder is mine
    if alike and isinstance(tree, dict):
        assert all(a is b for a, b in zip(holder.values(), mine.values()))


@settings(many, max_examples=min(TREES // 5, 200))
@given(TREES_OF, TREES_OF)
def test_a_tree_comes_back_from_a_file(tmp_path_factory: Any, extra: Any, mine: Any) -> None:
    folder = tmp_path_factory.mktemp("trees")
    state = ddprun.snapshot(folder=folder, extra={"x": extra}, per_rank={"x": mine}, rng=False, memory=False)
    state.save(1, disk=True)
    state.close()
    state = ddprun.snapshot(folder=folder, rng=False, memory=False)
    assert Same().exact({"x": extra}, state.extra) and Same().exact({"x": mine}, state.per_rank)
    state.close()
