"""Trees of state come back as they were, and nothing is pickled."""

from __future__ import annotations

import collections
import json
import math
from typing import Any, NamedTuple

import pytest
import torch

import ddprun
from ddprun._tree import Reader, Writer, put_in_place


def back(tree: Any, inline: bool = False) -> Any:
    """Through JSON text, as in a snapshot."""
    writer = Writer(inline)
    text = json.dumps(writer.write(tree, "x"))
    return Reader(writer.tensors).read(json.loads(text))


@pytest.mark.parametrize(
    "tree",
    [
        None,
        True,
        -1,
        2**70,
        0.1,
        float("inf"),
        "ü\0",
        b"\0\xff",
        1 + 2j,
        [],
        (),
        (1, (2.0, [3])),
        {},
        {1: "int", "1": "text", (2, 3): None},
        {"#": "a key of ours"},
        {3, 1},
        collections.Counter({30: 1, 60: 2}),
        torch.bfloat16,
        torch.device("cpu"),
        torch.Size([2, 3]),
        bytearray(b"xy"),
        frozenset({1, "1"}),
        {None, 2, "a", (1, b"b")},
        collections.deque([1, 2], maxlen=2),
        collections.OrderedDict([("b", 1), ("a", 2)]),
        collections.defaultdict(list, {3: [1]}),
        "\ud83d\ude00",
    ],
    ids=repr,
)
def test_plain_data_comes_back(tree: Any) -> None:
    got = back(tree)
    assert got == tree and type(got) is type(tree)
    assert getattr(got, "maxlen", None) == getattr(tree, "maxlen", None)
    assert getattr(got, "default_factory", None) == getattr(tree, "default_factory", None)


def test_integers_of_thousands_of_digits_come_back() -> None:
    for n in (2**64, -(2**64), 7**6000):
        got = back([n, {n: [1], (n,): 2}])
        assert got == [n, {n: [1], (n,): 2}]


def test_nan_comes_back() -> None:
    assert math.isnan(back({"loss": float("nan")})["loss"])


def some_tensors() -> "list[torch.Tensor]":
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    return [
        base,
        base.permute(2, 0, 1),
        base[:, 1:, ::2],
        base[:, :1].expand(2, 5, 4),
        torch.tensor(3.0),
        torch.empty(0, 3),
        torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(3, 2, dtype=torch.complex64),
        torch.randn(3, 2, dtype=torch.complex64).conj(),
        *(base.to(kind) for kind in kinds),
    ]


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("t", some_tensors(), ids=lambda t: f"{t.dtype}{tuple(t.stride())}")
def test_tensors_come_back(t: torch.Tensor, inline: bool) -> None:
    got = back({"t": t}, inline)["t"]
    assert got.dtype == t.dtype and torch.equal(got, t)


def test_channels_last_is_saved_without_a_copy() -> None:
    t = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    writer = Writer()
    mark = writer.write(t, "x")
    (saved,) = writer.tensors.values()
    assert saved.data_ptr() == t.data_ptr() and saved.is_contiguous()
    assert Reader(writer.tensors).read(mark).stride() == t.stride()


def test_tied_tensors_are_saved_once() -> None:
    t = torch.rand(3)
    writer = Writer()
    writer.write({"a": t, "b": t, "part": t[:2]}, "x")
    assert list(writer.tensors) == ["x.a", "x.part"]


def test_names_are_not_confused() -> None:
    tree = {"a.b": {"c": torch.ones(1)}, "a": {"b.c": torch.zeros(1)}}
    got = back(tree)
    assert got["a.b"]["c"] == 1 and got["a"]["b.c"] == 0


def test_long_names_do() -> None:
    tree = {"ä" * 300 + str(i): torch.full((1,), float(i)) for i in range(3)}
    writer = Writer()
    writer.write(tree, "x")
    assert all(len(name.encode()) < 256 for name in writer.tensors)
    assert [t.item() for t in back(tree).values()] == [0, 1, 2]


def test_numpy_comes_back() -> None:
    numpy = pytest.importorskip("numpy")
    state = numpy.random.RandomState(3).get_state()
    got = back({"rng": state, "n": numpy.int32(7)}, inline=True)
    assert (got["rng"][1] == state[1]).all() and got["rng"][2:] == state[2:]
    assert got["n"] == 7


@pytest.mark.parametrize("inline", [False, True])
def test_numpy_values_of_one_shape_are_not_confused(inline: bool) -> None:
    """Each became a tensor that died at once, and the next one had its memory."""
    numpy = pytest.importorskip("numpy")
    tree = {i: [numpy.float64(i), numpy.full(4, i), (numpy.int64(i),)] for i in range(50)}
    got = back(tree, inline)
    assert all((a == b).all() for i in tree for a, b in zip(tree[i], map(numpy.asarray, got[i])))


def test_tensors_that_die_at_once_are_not_confused() -> None:
    writer = Writer(inline=True)
    text = [writer.write(torch.full((1000,), float(i)), f"x.{i}") for i in range(50)]
    assert [Reader({}).read(t)[0].item() for t in text] == list(range(50))


def test_views_of_one_memory_are_not_confused() -> None:
    z = torch.tensor([1 + 2j])
    got = back([z, z.conj(), z.imag, z.conj().imag])
    assert [t.item() for t in got] == [1 + 2j, 1 - 2j, 2, -2]


@pytest.mark.parametrize("dtype", [">i4", ">f8", "<M8[s]", "|S2", "<U2", ">c16"])
def test_arrays_keep_their_type_and_order_of_bytes(dtype: str) -> None:
    numpy = pytest.importorskip("numpy")
    x = numpy.arange(6, dtype="u1").reshape(2, 3).astype(dtype)
    got = back([x, x.T, x[:, ::2]])
    assert [a.dtype.str for a in got] == [x.dtype.str] * 3
    assert (got[0] == x).all() and (got[1] == x.T).all() and (got[2] == x[:, ::2]).all()
    assert got[1].flags.f_contiguous and type(back(numpy.zeros(()))) is numpy.ndarray


def test_what_occurs_twice_comes_back_as_one() -> None:
    numbers, t = [1], torch.ones(2)
    got = back({"a": numbers, "b": [numbers, t], "c": t})
    assert got["a"] is got["b"][0] and got["c"] is got["b"][1]


def test_what_torch_keeps_beside_the_state_of_a_model_comes_back() -> None:
    state = torch.nn.BatchNorm1d(2).state_dict()
    got = back(state)
    assert type(got) is collections.OrderedDict and got._metadata == state._metadata == {"": {"version": 2}}


class Point(NamedTuple):
    x: int


class Table(dict):  # type: ignore[type-arg]
    pass


def odd_values() -> "list[Any]":
    numpy = pytest.importorskip("numpy")
    itself: list[Any] = []
    itself.append(itself)
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    return [
        object(), lambda: 0, torch.ones(2).to_sparse(), torch.empty(2, device="meta"), Point(1), Table(), range(3),
        itself, {torch.ones(1)}, {(1, torch.ones(1)): 2}, collections.defaultdict(lambda: 0), numpy.array([{}]),
        numpy.zeros(2, "i4,f4"), numpy.longdouble(1), numpy.str_("a"), numpy.ma.array([1]), torch.ones((1,) * 9),
        deep,
    ]  # fmt: skip


@pytest.mark.parametrize("i", range(18))
def test_what_cannot_be_kept_is_named(i: int) -> None:
    with pytest.raises(ddprun.Error, match="extra.thing.0.*: a.* cannot be kept") as e:
        Writer().write({"thing": [odd_values()[i]]}, "extra")
    assert e.value.code == 2


def test_a_type_that_cannot_be_kept_is_told() -> None:
    with pytest.raises(ddprun.Error, match="^extra.at.3: a Point .*test_tree.Point. cannot be kept; give tensors, n"):
        Writer().write({"at": [0, 1, 2, Point(1)]}, "extra")


# -- into the program's own objects --------------------------------------------


def test_a_parameter_is_frozen_as_the_saved_one() -> None:
    mine = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    holder = put_in_place([mine], back([torch.nn.Parameter(torch.ones(2))], True))
    assert holder[0] is mine and mine.requires_grad and mine.tolist() == [1, 1]


def test_values_come_into_the_objects_of_the_program() -> None:
    numpy = pytest.importorskip("numpy")
    saved = {
        "list": [1, [2], 3], "dict": {"b": 1, "a": {2: 3}}, "set": {1}, "deque": collections.deque([1, 2], 2),
        "tensor": torch.tensor([1.0, math.nan]), "array": numpy.array([1, 2]), "bytes": bytearray(b"xy"),
        "tuple": ([1], 2), "number": 3,
    }  # fmt: skip
    mine = {
        "list": [9, [9, 9]], "dict": {"a": {9: 9}, "c": 9}, "set": {9}, "deque": collections.deque([9], 2),
        "tensor": torch.zeros(2, requires_grad=True), "array": numpy.zeros(2, int), "bytes": bytearray(b"999"),
        "tuple": ([9], 9), "number": 9,
    }  # fmt: skip
    own = dict(mine)
    inner = mine["list"][1], mine["dict"]["a"], mine["tuple"][0]  # type: ignore[index]
    put_in_place(mine, back(saved))
    assert all(mine[name] is own[name] for name in own if name not in ("tuple", "number"))
    assert (mine["list"][1], mine["dict"]["a"], mine["tuple"][0]) == inner == ([2], {2: 3}, [1])  # type: ignore[index]
    assert all(a is b for a, b in zip(inner, (mine["list"][1], mine["dict"]["a"], mine["tuple"][0])))  # type: ignore[index]
    assert list(mine["dict"]) == ["b", "a"] and mine["set"] == {1} and list(mine["deque"]) == [1, 2]  # type: ignore[call-overload]
    assert repr(mine["tensor"]) == "tensor([1., nan], requires_grad=True)" and mine["array"].tolist() == [1, 2]  # type: ignore[attr-defined]
    assert mine["bytes"] == b"xy" and mine["number"] == 3


def test_what_does_not_fit_is_replaced() -> None:
    """Neither a default that stands in several places nor another shape is filled."""
    default: list[int] = []
    mine = {"a": default, "b": default, "t": torch.zeros(0), "d": collections.deque(maxlen=3), "n": 1}
    t, d = mine["t"], mine["d"]
    put_in_place(mine, back({"a": [1], "b": [2], "t": torch.ones(2), "d": collections.deque([1], 2), "n": [3]}))
    assert mine["a"] is default and default == [1] and mine["b"] == [2]
    assert len(mine["t"]) == 2 and len(t) == 0 and mine["d"].maxlen == 2 and d.maxlen == 3  # type: ignore[arg-type,union-attr]


def test_what_occurs_twice_is_one_object_of_the_program() -> None:
    """Wherever it had one."""
    numbers = [1]
    own: list[int] = []
    mine: dict[str, Any] = {"x": {}, "b": own}
    put_in_place(mine, back({"x": {"a": (numbers,)}, "b": numbers, "c": [numbers]}))
    assert mine == {"x": {"a": ([1],)}, "b": [1], "c": [[1]]}
    assert mine["b"] is own and mine["x"]["a"][0] is own and mine["c"][0] is own


# -- of ddprun 0.2 -------------------------------------------------------------

OF_0_2 = (
    '{"i": {"#": "dict", "of": [[1, "a"]]}, "t": {"#": "tuple", "of": [1, {"#": "tuple", "of": [2]}]}, '
    '"s": {"#": "set", "of": [1, 3]}, "b": {"#": "bytes", "of": "eHk="}, "c": {"#": "complex", "of": [1.0, -2.0]}, '
    '"d": {"#": "dtype", "of": "bfloat16"}, "dev": {"#": "device", "of": "cpu"}, "inf": Infinity, '
    '"count": {"#": "counter", "of": [[30, 1]]}, "q": [1, 2], '
    '"x": {"#": "tensor", "order": [0, 2, 3, 1], "of": "extra.x"}, '
    '"z": {"#": "tensor", "complex": true, "of": "extra.z"}, '
    '"np": {"#": "numpy", "of": {"#": "tensor", "of": "extra.np"}}, '
    '"r": {"#": "numpy", "of": {"#": "tensor", "dtype": 9, "shape": [2], "data": "AAE="}}}'
)


def test_what_an_older_version_wrote_is_read() -> None:
    numpy = pytest.importorskip("numpy")
    x = torch.arange(8.0).reshape(1, 2, 2, 2)
    tensors = {
        "extra.x": x.permute(0, 2, 3, 1).contiguous(),
        "extra.z": torch.tensor([[1.0, 2.0]]),
        "extra.np": torch.arange(3, dtype=torch.int32),
    }
    got = Reader(tensors).read(json.loads(OF_0_2))
    arrays = got.pop("np"), got.pop("r")
    assert torch.equal(got.pop("x"), x) and got.pop("z").item() == 1 + 2j
    assert [(a.dtype, a.tolist()) for a in arrays] == [(numpy.int32, [0, 1, 2]), (numpy.uint8, [0, 1])]
    assert got == {
        "i": {1: "a"}, "t": (1, (2,)), "s": {1, 3}, "b": b"xy", "c": 1 - 2j, "d": torch.bfloat16,
        "dev": torch.device("cpu"), "inf": math.inf, "count": collections.Counter({30: 1}), "q": [1, 2],
    }  # fmt: skip
