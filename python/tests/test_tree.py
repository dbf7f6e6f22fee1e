"""Trees of state come back as they were, and nothing is pickled."""

from __future__ import annotations

import collections
import json
import math
from typing import Any

import pytest
import torch

import ddprun
from ddprun._tree import Writer, unflatten


def back(tree: Any, inline: bool = False) -> Any:
    """Through JSON text, as in a snapshot."""
    writer = Writer(inline)
    text = json.dumps(writer.write(tree, "x"))
    return unflatten(json.loads(text), writer.tensors)


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
    ],
    ids=repr,
)
def test_plain_data_comes_back(tree: Any) -> None:
    got = back(tree)
    assert got == tree and type(got) is type(tree)


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
    assert unflatten(mark, writer.tensors).stride() == t.stride()


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


@pytest.mark.parametrize("what", [object(), lambda: 0, torch.ones(2).to_sparse(), torch.empty(2, device="meta")])
def test_what_cannot_be_kept_is_named(what: Any) -> None:
    with pytest.raises(ddprun.Error, match="extra.thing.0: a .* cannot be kept") as e:
        Writer().write({"thing": [what]}, "extra")
    assert e.value.code == 2
