"""State in pieces, without processes: a job is a list of programs, and a fake of
libddp's keeper has what they save."""

from __future__ import annotations

import ctypes
import dataclasses
import types
from typing import Any

import pytest
import torch
from conftest import same
from torch import nn

import ddprun
from ddprun import _libddp, _parts, _pieces
from ddprun._pieces import Nothing, Pieces
from ddprun._shards import Span, parts_of
from ddprun._structure import as_tensor, compact
from ddprun._tree import Writer


class Keeper:
    """Whole tensors in place of images: what all ranks saved of the newest step."""

    def __init__(self) -> None:
        self.step = -1
        self.tensors: dict[str, torch.Tensor] = {}
        self.lost = ""  # of this tensor there is no image
        self.struck: dict[str, torch.Tensor] = {}  # of a snapshot that proves damaged when it is read

    def call(self, name: str, keeper: Any, *arguments: Any) -> None:
        getattr(self, name)(*arguments)

    def ddp_keeper_save_pieces(self, step: int, rows: Any, n: int, meta: Any, nmeta: int, disk: bool) -> None:
        if step != self.step:
            self.step, self.tensors = step, {}
        for row in rows:
            dims = range(row.local.dims)
            whole = tuple(row.whole[d] for d in dims)
            dtype = _pieces.DTYPE_OF[row.local.dtype]
            name = row.local.name.decode()
            t = self.tensors.setdefault(name, torch.empty(whole, dtype=dtype))
            assert t.shape == whole and t.dtype == dtype, f"{name}: the ranks do not agree"
            self.box(t, row).copy_(self.memory(row, dtype))

    def ddp_keeper_load_pieces(self, fn: Any, ctx: Any, meta: Any, nmeta: int, kept: Any) -> None:
        if self.step < 0:
            raise ddprun.Error(_libddp.NOINPUT, "there is none")
        kept._obj.step = self.step
        for name, t in self.struck.items():
            self.wanted(fn, ctx, name, t)
        wanted = {name: self.wanted(fn, ctx, name, t) for name, t in self.tensors.items()}
        if wanted.get(self.lost):
            kept._obj.why = f"there is no image of {self.lost}".encode()
            raise ddprun.Error(_libddp.NOINPUT, "only one that was not finished")
        for name, t in self.tensors.items():
            for want in wanted[name]:
                self.memory(want, t.dtype).copy_(self.box(t, want))

    def wanted(self, fn: Any, ctx: Any, name: str, t: torch.Tensor) -> "list[Any]":
        whole = _libddp.Tensor(name=name.encode(), dtype=_pieces.DTYPES[t.dtype], dims=t.dim())
        whole.shape[: t.dim()] = t.shape
        wants: list[Any] = []
        while True:
            want = _libddp.Piece(local=whole)
            if not fn(ctx, ctypes.byref(whole), len(wants), ctypes.byref(want)):
                return wants
            wants.append(want)

    def box(self, t: torch.Tensor, row: Any) -> torch.Tensor:
        return t[tuple(slice(row.offset[d], row.offset[d] + row.local.shape[d]) for d in range(t.dim()))]

    def memory(self, row: Any, dtype: torch.dtype) -> torch.Tensor:
        shape = tuple(row.local.shape[: row.local.dims])
        n = torch.Size(shape).numel()
        if n == 0:
            return torch.empty(shape, dtype=dtype)
        data = (ctypes.c_uint8 * (n * dtype.itemsize)).from_address(row.local.data)
        return torch.frombuffer(data, dtype=dtype).reshape(shape)


@pytest.fixture
def keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    fake = Keeper()
    monkeypatch.setattr(_pieces, "call", fake.call)
    return fake


def form(*given: Any, **extra: Any) -> Pieces:
    return Pieces(_parts.named(given), extra)


def save(keeper: Keeper, step: int, *ranks: Pieces) -> None:
    for rank in ranks:
        rank.save(0, step, rank.collect(step), False)


def load(rank: Pieces, prepare: Any = None) -> Any:
    found = rank.load(0, prepare)
    for name, part in rank._parts.items():
        _parts.load(name, part, found.parts[name])
    _parts.load_values(rank._extra, found.extra)
    return found


def rows_of(t: torch.Tensor, rank: int, world: int) -> ddprun.Piece:
    """The rank's share of its rows, as even as can be."""
    each = -(-len(t) // world)
    mine = t[min(rank * each, len(t)) : min((rank + 1) * each, len(t))].clone()
    return ddprun.Piece(mine, t.shape, (min(rank * each, len(t)), *[0] * (t.dim() - 1)))


@pytest.mark.parametrize("worlds", [(2, 1), (1, 2), (4, 3), (3, 5)])
def test_a_hand_made_shard_comes_back_in_another_world(keeper: Keeper, worlds: "tuple[int, int]") -> None:
    t = torch.rand(7, 3)
    before, after = worlds
    save(keeper, 4, *(form(w=rows_of(t, r, before)) for r in range(before)))
    for r in range(after):
        rank = form(w=rows_of(torch.zeros_like(t), r, after))
        mine = rank._extra["w"].tensor
        load(rank)
        assert rank._extra["w"].tensor is mine and torch.equal(mine, rows_of(t, r, after).tensor)


def test_a_shard_comes_back_as_a_whole_and_a_whole_as_shards(keeper: Keeper) -> None:
    t = torch.rand(4, 2).t()  # not as it lies in memory
    save(keeper, 1, *(form(w=rows_of(t, r, 2)) for r in range(2)))
    whole = form(w=torch.zeros(2, 4), other=1)
    load(whole)
    assert torch.equal(whole._extra["w"], t)
    save(keeper, 2, form(w=t, scalar=torch.tensor(3.0)))
    part = form(w=rows_of(torch.zeros(2, 4), 1, 2), scalar=torch.tensor(0.0))
    load(part)
    assert torch.equal(part._extra["w"].tensor, t[1:]) and part._extra["scalar"] == 3


def test_a_shard_of_another_whole_is_told(keeper: Keeper) -> None:
    save(keeper, 1, form(w=rows_of(torch.rand(4, 2), 0, 1)))
    with pytest.raises(ddprun.Error, match=r"\n  extra.w: float32 \(4, 2\) in the snapshot, float32 \(6, 2\) here"):
        load(form(w=rows_of(torch.rand(6, 2), 0, 1)))


@pytest.mark.parametrize("shape, offsets", [((4,), (3,)), ((4,), (-1,)), ((4, 1), (0, 0)), ((), ()), ((4,), (0, 0))])
def test_a_piece_lies_within_its_whole(shape: Any, offsets: Any) -> None:
    with pytest.raises(ddprun.Error, match="does not lie within"):
        ddprun.Piece(torch.zeros(2), shape, offsets)


@pytest.mark.parametrize("shape", [(7,), (5, 3), (3, 1, 4), (2, 2, 3, 2)])
def test_a_span_of_the_memory_is_a_few_boxes(shape: "tuple[int, ...]") -> None:
    t = torch.arange(torch.Size(shape).numel()).reshape(shape)
    for start in range(t.numel()):
        for end in range(start, t.numel() + 1):
            padded = nn.functional.pad(t.flatten()[start:end], (0, 2), value=-1)
            parts = parts_of(Span(padded, shape, start, end - start))
            assert len(parts) <= 2 * len(shape) - 1
            boxes = [t[tuple(slice(at, at + n) for at, n in zip(offset, local.shape))] for local, offset in parts]
            assert all(torch.equal(box, local) for box, (local, _) in zip(boxes, parts))
            assert sum(local.numel() for local, _ in parts) == end - start


def network(*layers: int) -> "tuple[nn.Module, torch.optim.Optimizer]":
    """Of a model of three layers, those."""
    torch.manual_seed(sum(layers))
    model = nn.ModuleDict({str(i): nn.Linear(3, 3) for i in layers})
    model.register_buffer("seen", torch.zeros(()))
    model.gain = nn.Parameter(torch.rand(()))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1 * (1 + len(layers)), amsgrad=True)


def trained(model: Any, optimizer: torch.optim.Optimizer) -> "tuple[Any, Any]":
    loss = sum(layer(torch.ones(3)).square().sum() for name, layer in model.items()) * model.gain
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def test_the_optimizer_goes_by_names(keeper: Keeper) -> None:
    saved = trained(*network(0, 1))
    save(keeper, 1, form(*saved))
    assert {"model.0.weight", "optimizer.state.0.weight.exp_avg", "optimizer.state.gain.step"} <= keeper.tensors.keys()
    assert all(t.dim() > 0 for t in keeper.tensors.values())
    model, _ = network(0, 1)
    backwards = torch.optim.AdamW([*model.parameters()][::-1], amsgrad=True)
    load(form(model, backwards))
    for name, p in model.named_parameters():
        assert same(backwards.state[p], saved[1].state[dict(saved[0].named_parameters())[name]])
    assert backwards.param_groups[0]["lr"] == saved[1].param_groups[0]["lr"]


def test_stages_of_a_pipeline_have_each_their_own_and_can_be_joined(keeper: Keeper) -> None:
    stages = [trained(*network(0, 1)), trained(*network(2))]
    del stages[1][0].gain, stages[1][0].seen  # the first stage has them
    stages[1][1].param_groups[0]["params"].pop(0)
    stages[1][1].state.pop(next(iter(stages[1][1].state)))
    save(keeper, 1, *(form(*stage) for stage in stages))
    again = network(0, 1)
    load(form(*again))
    assert same(again[0].state_dict(), stages[0][0].state_dict())
    assert same(again[1].state_dict(), stages[0][1].state_dict())
    whole = network(0, 1, 2)
    load(form(*whole))
    state = {**stages[0][0].state_dict(), **stages[1][0].state_dict()}
    assert all(torch.equal(t, state[key]) for key, t in whole[0].state_dict().items())
    there = stages[1][1].state[stages[1][0]["2"].weight]
    assert same(whole[1].state[whole[0]["2"].weight], there)


def test_a_wrong_program_is_told_and_not_changed(keeper: Keeper) -> None:
    save(keeper, 1, form(*trained(*network(0, 1))))
    other, optimizer = network(0, 2)
    other["0"] = nn.Linear(3, 4)
    before = {key: t.clone() for key, t in other.state_dict().items()}
    with pytest.raises(ddprun.Error) as e:
        load(form(other, optimizer))
    for line in (
        "model.0.weight: float32 (3, 3) in the snapshot, float32 (4, 3) here",
        "model.1.bias: float32 (3,) in the snapshot, not here",
        "model.2.bias: float32 (3,) here, not in the snapshot",
        "optimizer.1.bias: in the snapshot, not here",
    ):
        assert f"\n  {line}" in str(e.value), str(e.value)
    assert same(dict(other.state_dict()), before)


def test_parameters_added_later_come_back_by_prepare(keeper: Keeper) -> None:
    def grow(model: Any, optimizer: torch.optim.Optimizer) -> None:
        model["later"] = nn.Linear(3, 3)
        optimizer.add_param_group({"params": model["later"].parameters(), "lr": 0.5})

    saved = trained(*network(0))
    rank = form(*saved, grown=torch.zeros(2))
    save(keeper, 1, rank)
    grow(*saved)
    trained(*saved)
    rank._extra["grown"].fill_(7)
    save(keeper, 2, rank)
    again = network(0)
    asked: list[Any] = []

    def prepare(step: int, extra: "dict[str, Any]") -> None:
        asked.append((step, extra["grown"].tolist()))
        grow(*again)

    load(form(*again, grown=torch.zeros(2)), prepare)
    assert asked == [(2, [7, 7])]
    assert same([part.state_dict() for part in again], [part.state_dict() for part in saved])


def test_the_table_follows_what_changes(keeper: Keeper) -> None:
    """Each save must have what there is, whatever was remembered."""
    model, optimizer = trained(*network(0, 1))
    rank = form(model, optimizer)

    def check(step: int) -> None:
        save(keeper, step, rank)
        state = {f"model.{key}": t for key, t in model.state_dict().items()}
        got = {name: t for name, t in keeper.tensors.items() if name.startswith("model.")}
        assert got.keys() == state.keys()
        assert all(torch.equal(got[name], t.reshape(got[name].shape)) for name, t in state.items())
        average = optimizer.state[model["0"].weight]["exp_avg"]
        assert torch.equal(keeper.tensors["optimizer.state.0.weight.exp_avg"], average)

    check(1)
    trained(model, optimizer)
    check(2)
    model["0"].weight.data = torch.rand(3, 3)  # other memory
    check(3)
    model["0"].weight.data = torch.rand(3, 3).t()  # another order
    check(4)
    model["0"].weight.data = model["0"].weight.data.contiguous().t().contiguous().t()
    check(5)
    model.seen = torch.tensor(3.0)  # another object
    check(6)
    model["1"] = nn.Linear(3, 2)
    check(7)
    model["0"].bias = None
    check(8)
    model.register_buffer("late", torch.ones(2, dtype=torch.complex64).real)
    check(9)
    state = optimizer.state[model["0"].weight]
    state["exp_avg"] = state["exp_avg"] + 1
    check(10)
    model["0"].weight.data = model["0"].weight.data.double()
    check(11)
    model.bfloat16()
    check(12)


def test_a_number_in_the_state_of_an_optimizer_is_followed(keeper: Keeper) -> None:
    model, optimizer = trained(*network(0))
    rank = form(model, optimizer)
    for step in (1, 2):
        optimizer.state[model["0"].weight]["seen"] = step
        save(keeper, step, rank)
    again, theirs = trained(*network(0))
    load(form(again, theirs))
    assert theirs.state[again["0"].weight]["seen"] == 2


def test_a_layout_that_stays_is_not_built_again(keeper: Keeper) -> None:
    rank = form(*trained(*network(0, 1)))
    save(keeper, 1, rank)
    layout, rows = rank._layout, rank._table.rows
    trained(*rank._parts.values())
    save(keeper, 2, rank)
    assert rank._layout is layout and rank._table.rows is rows


@pytest.mark.parametrize(
    "text, told",
    [
        (None, "not written by ddprun.snapshot"),
        (b"", "makes no sense"),
        (b"[]", "makes no sense"),
        (b'{"format":3}', "makes no sense"),
        (b'{"format":1}', "makes no sense"),
        (b'{"format":1,"parts":{"a":{"#":"tensor","of":"x"}},"extra":{}}', "makes no sense"),
        (b'{"format":1,"parts":3,"extra":{}}', "makes no sense"),
        (b'{"format":2,"parts":{"#":"?"},"extra":{}}', "makes no sense"),
        (b'{"format":3,"step":1,"parts":{},"extra":{},"tensors":{"a":{"#":"tensor","of":"x"}}}', "makes no sense"),
        (b'{"format":4}', "a newer version of ddprun wrote the snapshot"),
    ],
)
def test_a_structure_without_sense_is_told(keeper: Keeper, text: "bytes | None", told: str) -> None:
    save(keeper, 1, form(a=1))
    (name,) = keeper.tensors
    del keeper.tensors[name]
    if text is not None:
        keeper.tensors[name] = torch.tensor(list(text), dtype=torch.uint8)
    with pytest.raises(ddprun.Error, match=told):
        load(form(a=1))


@pytest.mark.parametrize("format, name", [(1, "ddprun.structure"), (2, "ddprun.structure.4096")])
def test_what_older_versions_saved_comes_back(keeper: Keeper, format: int, name: str) -> None:
    """Whole tensors under other names, the optimizer's state by numbers."""
    model, optimizer = trained(*network(0, 1))
    writer = Writer()
    parts = writer.write({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "")
    extra = writer.write({"best": 0.5, "t": torch.arange(6).reshape(2, 3).t()}, "extra")
    text = compact({"format": format, "parts": parts, "extra": extra})
    keeper.step, keeper.tensors = 7, {**writer.tensors, name: as_tensor(text)}
    again = network(0, 1)
    found = load(form(*again, best=0.0, t=torch.zeros(3, 2, dtype=torch.int64)))
    assert found.kept.step == 7 and found.extra["best"] == 0.5
    assert torch.equal(found.extra["t"], torch.arange(6).reshape(2, 3).t())
    assert same(again[0].state_dict(), model.state_dict())
    assert same(again[1].state_dict(), optimizer.state_dict())


def test_values_that_cannot_be_kept_are_told_by_the_first_save(keeper: Keeper) -> None:
    with pytest.raises(ddprun.Error, match="^extra.x: a object .builtins.object. cannot be kept"):
        save(keeper, 1, form(x=object()))


def test_the_newest_that_is_whole_is_taken_with_its_own_structure(keeper: Keeper) -> None:
    """A newer one proves damaged only when its tensors are read."""
    save(keeper, 1, form(*trained(*network(0)), at=1))
    older = keeper.tensors
    newer = form(*trained(*trained(*network(0))), at=2, more=torch.ones(1))
    save(keeper, 2, newer)
    load_pieces = keeper.ddp_keeper_load_pieces
    loads = []

    def damaged(*arguments: Any) -> None:
        loads.append(keeper.step)
        if len(loads) == 2:
            keeper.struck = keeper.tensors
            keeper.step, keeper.tensors = 1, older
        load_pieces(*arguments)

    keeper.ddp_keeper_load_pieces = damaged  # type: ignore[method-assign]
    rank = form(*network(0), at=0)
    assert load(rank).kept.step == 1 and rank._extra == {"at": 1} and loads == [2, 2, 1]


def test_a_first_save_that_ranks_died_in_is_a_fresh_start(keeper: Keeper) -> None:
    """Its structure is there: each node has that."""
    with pytest.raises(Nothing, match="^$"):
        form(w=torch.rand(3)).load(0, None)
    save(keeper, 1, form(w=rows_of(torch.rand(4), 0, 2)))
    keeper.lost = "extra.w"
    rank = form(w=rows_of(torch.zeros(4), 1, 2))
    with pytest.raises(Nothing, match="^there is no image of extra.w$"):
        rank.load(0, None)
    assert torch.equal(rank._extra["w"].tensor, torch.zeros(2))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_a_sharded_tensor_without_elements_comes_back(
    keeper: Keeper, in_a_world: Any, shape: "tuple[int, ...]"
) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    def program(rank: int, world: int) -> Pieces:
        in_a_world(rank, world)
        model = nn.Linear(2, 3)
        mesh = init_device_mesh("cpu", (world,))
        model.none = nn.Parameter(distribute_tensor(torch.empty(shape), mesh, [Shard(0)]))
        return form(model, by_hand=rows_of(torch.empty(shape), rank, world), span=Span(torch.empty(4), shape, 0, 0))

    ranks = [program(r, 2) for r in range(2)]
    save(keeper, 1, *ranks)
    places = [[place for place in rank._places if 0 in place.whole] for rank in ranks]
    assert len(places[0]) == 3 and places[0] == places[1]
    before = ranks[0]._layout
    save(keeper, 2, *ranks)
    assert ranks[0]._layout is before
    assert load(program(0, 3)).kept.step == 2


# -- what has its own way to shard ---------------------------------------------


@pytest.fixture
def placed(in_a_world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """placed(RANK, WORLD): PyTorch and ddprun are there."""

    def enter(rank: int, world: int) -> None:
        in_a_world(rank, world)
        here = dataclasses.replace(ddprun.place(), rank=rank, world=world)
        monkeypatch.setattr(_parts, "place", lambda: here)

    return enter


def fsdp1(use_orig_params: bool, seed: int) -> "tuple[Any, torch.optim.Optimizer]":
    """Two units, with a state that tells of which element each part is."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    how: Any = {"use_orig_params": use_orig_params, "device_id": torch.device("cpu")}
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 7))
    net[0] = FullyShardedDataParallel(net[0], **how)
    model = FullyShardedDataParallel(net, **how)
    optimizer = torch.optim.AdamW(model.parameters())
    for p in optimizer.param_groups[0]["params"]:
        if p.numel() > 0:  # the others are on other ranks, and get no gradient
            optimizer.state[p] = {"step": torch.tensor(float(seed)), "exp_avg": 2 * p.detach()}
    return model, optimizer


def held(model: Any, optimizer: torch.optim.Optimizer) -> "list[torch.Tensor]":
    """All that this rank has."""
    return [t.detach() for p in model.parameters() for t in (p, *optimizer.state.get(p, {}).values())]


@pytest.mark.parametrize("use_orig_params", [False, True])
@pytest.mark.parametrize("worlds", [(2, 2), (2, 3), (3, 1), (1, 4)])
def test_fsdp1_comes_back_in_any_world(
    keeper: Keeper, placed: Any, worlds: "tuple[int, int]", use_orig_params: bool
) -> None:
    before, after = worlds
    for rank in range(before):
        placed(rank, before)
        model, optimizer = fsdp1(use_orig_params, 1)
        model[1].running_mean.fill_(rank)  # each has seen other samples
        save(keeper, 1, form(model, optimizer))
    for rank in range(after):
        placed(rank, after)
        again, wanted = fsdp1(use_orig_params, 2), fsdp1(use_orig_params, 1)
        load(form(*again))
        assert all(torch.equal(a, b) for a, b in zip(held(*again), held(*wanted)))
        assert len(held(*again)) == len(held(*wanted))
        mean = again[0][1].running_mean
        assert torch.equal(mean, torch.full((5,), float(rank))) if before == after else mean.unique().numel() == 1


def test_fsdp1_with_its_own_parameters_is_the_whole_model(keeper: Keeper, placed: Any) -> None:
    """What it saves another layout takes, and what that saves it takes."""

    def plain(seed: int) -> "tuple[Any, torch.optim.Optimizer]":
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 7))
        optimizer = torch.optim.AdamW(model.parameters())
        for p in model.parameters():
            optimizer.state[p] = {"step": torch.tensor(float(seed)), "exp_avg": 2 * p.detach()}
        return model, optimizer

    for rank in range(3):
        placed(rank, 3)
        save(keeper, 1, form(*fsdp1(True, 1)))
    placed(0, 1)
    whole = plain(2)
    load(form(*whole))
    assert all(torch.equal(a, b) for a, b in zip(held(*whole), held(*plain(1))))
    save(keeper, 2, form(*plain(3)))
    placed(1, 2)
    part, wanted = fsdp1(True, 4), fsdp1(True, 3)
    load(form(*part))
    assert all(torch.equal(a, b) for a, b in zip(held(*part), held(*wanted)))


@pytest.mark.parametrize("worlds", [(2, 2), (2, 3), (3, 1)])
def test_a_zero_redundancy_optimizer_comes_back_in_any_world(
    keeper: Keeper, placed: Any, worlds: "tuple[int, int]"
) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def made(seed: int) -> "tuple[Any, Any]":
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 7))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1 * seed)
        for p in optimizer.optim.param_groups[0]["params"]:
            optimizer.optim.state[p] = {"step": torch.tensor(float(seed)), "exp_avg": 2 * p.detach()}
        return model, optimizer

    before, after = worlds
    for rank in range(before):
        placed(rank, before)
        save(keeper, 1, form(*made(1)))
    for rank in range(after):
        placed(rank, after)
        (model, optimizer), (wanted, theirs) = made(2), made(1)
        load(form(model, optimizer))
        assert [group["lr"] for each in (optimizer, optimizer.optim) for group in each.param_groups] == [0.1, 0.1]
        assert len(optimizer.state) == 0
        assert len(optimizer.optim.state) == len(theirs.optim.state)
        assert all(torch.equal(a, b) for a, b in zip(held(model, optimizer.optim), held(wanted, theirs.optim)))


class DeepSpeedZeroOptimizer:
    """What is asked of DeepSpeed's: a row of seven elements, with padding behind it."""

    round_robin_gradients = has_moe_layers = False

    def __init__(self, model: nn.Module, rank: int, world: int, seed: int) -> None:
        row = torch.cat([p.detach().flatten() for p in model.parameters()])
        size = -(-len(row) // (2 * world)) * 2
        master = nn.functional.pad(row, (0, size * world - len(row)))[rank * size :][:size].requires_grad_()
        self.optimizer = torch.optim.AdamW([master], lr=0.1 * seed)
        self.optimizer.state[master] = {"step": torch.tensor(float(seed)), "exp_avg": 2 * master.detach()}
        self.single_partition_of_fp32_groups, self.bit16_groups = [master], [[*model.parameters()]]
        self.round_robin_bit16_padding, self.real_dp_process_group = [[0, 0]], [None]
        self.partition_size, self.groups_padding = [size], [min(size, max(0, (rank + 1) * size - len(row)))]
        self.loss_scaler = types.SimpleNamespace(cur_scale=seed, dtype=torch.float16)

    def state_dict(self) -> Any:
        raise AssertionError("it has objects of DeepSpeed")

    load_state_dict = state_dict


@pytest.mark.parametrize("before_its_first_step", [False, True])
@pytest.mark.parametrize("worlds", [(2, 2), (2, 5), (5, 1)])
def test_deepspeeds_optimizer_comes_back_in_any_world(
    keeper: Keeper, placed: Any, worlds: "tuple[int, int]", before_its_first_step: bool
) -> None:
    def made(rank: int, world: int, seed: int) -> "tuple[Any, Any]":
        placed(rank, world)
        torch.manual_seed(seed)
        model = nn.Linear(6, 1)
        return model, DeepSpeedZeroOptimizer(model, rank, world, seed)

    before, after = worlds
    for rank in range(before):
        save(keeper, 1, form(*made(rank, before, 1)))
    for rank in range(after):
        (model, zero), (wanted, theirs) = made(rank, after, 2), made(rank, after, 1)
        if before_its_first_step:
            zero.optimizer.state.clear()
        load(form(model, zero))
        assert zero.optimizer.param_groups[0]["lr"] == 0.1 and zero.loss_scaler.cur_scale == 1
        assert same(model.state_dict(), wanted.state_dict())
        ours, other = (x.single_partition_of_fp32_groups[0] for x in (zero, theirs))
        assert torch.equal(ours, other) and same(dict(zero.optimizer.state[ours]), theirs.optimizer.state[other])
