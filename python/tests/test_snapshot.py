"""One process: what was saved is what a new program gets."""

from __future__ import annotations

import copy
import random
import resource
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from conftest import same
from torch import nn

import ddprun

Maker = Callable[[], "tuple[Any, ...]"]


def trained(parts: "tuple[Any, ...]", steps: int = 3, before: Callable[[], Any] = lambda: None) -> None:
    """A few steps with whatever the parts are."""
    model, *rest = parts
    optimizers = [p for p in rest if isinstance(p, torch.optim.Optimizer)]
    schedulers = [p for p in rest if hasattr(p, "get_last_lr")]
    scaler = next((p for p in rest if hasattr(p, "unscale_")), None)
    for _ in range(steps):
        before()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=scaler is not None):
            loss = model(model.example()).float().square().mean()
        (scaler.scale(loss) if scaler else loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer) if scaler else optimizer.step()
            optimizer.zero_grad()
        if scaler:
            scaler.update()
        for scheduler in schedulers:
            scheduler.step()


class Net(nn.Module):
    """Convolution in channels_last, batch norm's buffers, tied weights, dropout,
    a parameter of bfloat16."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3).to(memory_format=torch.channels_last)
        self.norm = nn.BatchNorm2d(width)
        self.drop = nn.Dropout(0.1)
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.b.weight = self.a.weight
        self.gain = nn.Parameter(torch.rand(width, dtype=torch.bfloat16))

    def example(self) -> torch.Tensor:
        return torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.conv(x))).mean((2, 3))
        return self.b(self.a(x)) * self.gain


def adam() -> "tuple[Any, ...]":
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), amsgrad=True)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)


def several() -> "tuple[Any, ...]":
    model = Net()
    first = torch.optim.SGD(model.conv.parameters(), lr=0.1)  # has no state
    second = torch.optim.SGD([*model.a.parameters(), model.gain], lr=0.1, momentum=0.9)
    warm = torch.optim.lr_scheduler.LinearLR(second, total_iters=3)
    then = torch.optim.lr_scheduler.MultiStepLR(second, [2, 4])
    return model, first, second, torch.optim.lr_scheduler.SequentialLR(second, [warm, then], [2])


def amp() -> "tuple[Any, ...]":
    model = Net()
    optimizer = torch.optim.NAdam(model.parameters())
    return model, optimizer, torch.amp.GradScaler("cpu", init_scale=2.0**10)


class FloatMaster(torch.optim.Optimizer):
    """Keeps float32 of a bfloat16 parameter."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self) -> None:  # type: ignore[override]
        for p in self.param_groups[0]["params"]:
            master = self.state[p].setdefault("master", p.detach().float())
            master -= 0.001 * p.grad.float()
            p.data.copy_(master)


def master() -> "tuple[Any, ...]":
    model = Net().bfloat16()
    model.example = lambda: Net.example(model).bfloat16()  # type: ignore[method-assign]
    return model, FloatMaster([p for p in model.parameters() if p.requires_grad])


def state_of(parts: "tuple[Any, ...]") -> Any:
    return copy.deepcopy([p.state_dict() for p in parts])


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("make", [adam, several, amp, master])
def test_a_new_program_goes_on_to_the_bit(make: Maker, overlap: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    parts = make()
    with_none = ddprun.snapshot(*parts, folder=tmp_path, overlap=overlap, rng=True)
    assert (with_none.step, with_none.restored) == (0, False)
    trained(parts)
    with_none.save(3, disk=True)
    with_none.close()
    saved = state_of(parts)
    trained(parts)  # the undisturbed run
    torch.manual_seed(2)
    again = make()
    state = ddprun.snapshot(*again, folder=tmp_path)
    assert (state.step, state.restored, state.from_memory, state.why) == (3, True, False, "")
    assert same(state_of(again), saved)
    trained(again)
    assert same(state_of(again), state_of(parts))
    assert again[0].b.weight is again[0].a.weight
    state.close()


def test_overlap_copies_what_the_optimizer_does_not_own(tmp_path: Path) -> None:
    """A forward pass changes the buffers before the optimizer's next step."""
    parts = adam()
    state = ddprun.snapshot(*parts, folder=tmp_path, overlap=True)
    trained(parts)
    saved = state_of(parts)
    state.save(3, disk=True)
    for _ in range(20):
        parts[0](parts[0].example())
    state.close()
    again = adam()
    ddprun.snapshot(*again, folder=tmp_path).close()
    assert same(state_of(again), saved)


def test_generators_go_on(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    model = nn.Linear(1, 1)
    state = ddprun.snapshot(model, folder=tmp_path)
    state.save(1, disk=True)
    state.close()
    draws = random.random(), numpy.random.rand(), torch.rand(1)
    ddprun.snapshot(model, folder=tmp_path).close()
    assert draws == (random.random(), numpy.random.rand(), torch.rand(1))
    torch.manual_seed(5)
    here = torch.rand(1)
    torch.manual_seed(5)
    ddprun.snapshot(model, folder=tmp_path, rng=False).close()
    assert torch.rand(1) == here


def test_extra_and_per_rank_come_back(tmp_path: Path) -> None:
    model, average = nn.Linear(2, 2), torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2))
    extra = {"best": 0.5, "seen": torch.arange(3), "average": average}
    state = ddprun.snapshot(model, folder=tmp_path, extra=extra, per_rank={"mine": [1, 2]})
    state.extra["best"] = float("inf")
    with torch.no_grad():
        next(average.parameters()).fill_(7)
    state.save(1, disk=True)
    state.close()
    other = torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2))
    state = ddprun.snapshot(model, folder=tmp_path, extra={"average": other, "new": 1}, per_rank={"mine": []})
    assert state.extra["best"] == float("inf") and state.extra["new"] == 1
    assert torch.equal(state.extra["seen"], torch.arange(3))
    assert state.extra["average"] is other and (next(other.parameters()) == 7).all()
    assert state.per_rank == {"mine": [1, 2]}
    state.close()


def test_values_of_numpy_come_back_to_each_rank(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    mine = {f"v{i}": numpy.float32(i) for i in range(20)}
    state = ddprun.snapshot(folder=tmp_path, per_rank=dict(mine), rng=False)
    state.save(1, disk=True)
    state.close()
    state = ddprun.snapshot(folder=tmp_path, rng=False)
    assert state.per_rank == mine and all(type(x) is numpy.float32 for x in state.per_rank.values())
    state.close()


def test_extra_comes_back_into_the_objects_of_the_program(tmp_path: Path) -> None:
    def kept() -> "dict[str, Any]":
        return {"losses": [], "best": {}, "seen": torch.zeros(3)}

    extra = kept()
    state = ddprun.snapshot(nn.Linear(1, 1), folder=tmp_path, extra=extra)
    extra["losses"].append(1.5)
    extra["best"]["loss"] = 1.5
    extra["seen"] += 1
    state.save(1, disk=True)
    state.close()
    extra = kept()
    losses, best, seen = extra["losses"], extra["best"], extra["seen"]
    state = ddprun.snapshot(nn.Linear(1, 1), folder=tmp_path, extra=extra)
    assert losses == [1.5] and best == {"loss": 1.5} and seen.sum() == 3
    losses.append(0.5)  # the program goes on with its own
    state.save(2, disk=True)
    state.close()
    state = ddprun.snapshot(nn.Linear(1, 1), folder=tmp_path)
    assert state.extra["losses"] == [1.5, 0.5]
    state.close()


class Average2:
    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> "dict[str, int]":
        return {"value": self.value}

    def load_state_dict(self, state: "dict[str, int]") -> None:
        self.value = state["value"]


class Average(Average2):
    pass


@pytest.mark.parametrize("kinds", [(Average2, Average2), (Average, Average, Average2), (Average2, Average, Average)])
def test_each_part_has_a_name_of_its_own(kinds: Any, tmp_path: Path) -> None:
    state = ddprun.snapshot(*(kind(i) for i, kind in enumerate(kinds)), folder=tmp_path)
    state.save(1, disk=True)
    state.close()
    again = [kind(9) for kind in kinds]
    ddprun.snapshot(*again, folder=tmp_path).close()
    assert [part.value for part in again] == list(range(len(kinds)))


def test_a_default_device_is_the_programs_own(tmp_path: Path) -> None:
    parts = adam()
    trained(parts)
    state = ddprun.snapshot(*parts, folder=tmp_path, per_rank={"empty": torch.empty(0)})
    state.save(3, disk=True)
    state.close()
    again = adam()
    torch.set_default_device("meta")
    try:
        state = ddprun.snapshot(*again, folder=tmp_path, per_rank={})
        state.save(4, disk=True)
        state.close()
    finally:
        torch.set_default_device(None)
    assert state.restored and state.per_rank["empty"].device.type == "cpu"
    assert same(state_of(again), state_of(parts))


class Scaled(nn.Module):
    """Has a state of its own that grows, as a layer of TransformerEngine."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.scale = torch.arange(n, dtype=torch.uint8)

    def get_extra_state(self) -> torch.Tensor:
        return self.scale

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.scale = state


def test_extra_state_of_another_size_comes_back(tmp_path: Path) -> None:
    state = ddprun.snapshot(nn.Sequential(Scaled(5)), folder=tmp_path)
    state.save(1, disk=True)
    state.close()
    model = nn.Sequential(Scaled(0))
    ddprun.snapshot(model, folder=tmp_path).close()
    assert model[0].scale.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("step", [7.0, "7", None, -1, 2**63])
def test_a_step_that_is_none_is_told(step: Any, tmp_path: Path) -> None:
    state = ddprun.snapshot(nn.Linear(1, 1), folder=tmp_path)
    with pytest.raises(ddprun.Error, match=f"the step is {step!r}, must be a whole number"):
        state.save(step)
    state.save(torch.tensor(7))  # type: ignore[arg-type]
    assert state.step == 7 and type(state.step) is int
    state.close()


def test_what_cannot_be_kept_is_told_by_the_first_save() -> None:
    state = ddprun.snapshot(nn.Linear(1, 1), extra={"seen": {"of": [1, Path("x")]}})
    with pytest.raises(ddprun.Error, match="^extra.seen.of.1: a PosixPath .pathlib.*PosixPath. cannot be kept; "):
        state.save(1)
    state.close()


def test_a_wrong_model_is_told_with_all_differences(tmp_path: Path) -> None:
    parts = adam()
    state = ddprun.snapshot(*parts, folder=tmp_path)
    state.save(1, disk=True)
    state.close()
    other = Net(width=5)
    other.new = nn.Linear(1, 1, bias=False)
    del other.b
    other.gain = nn.Parameter(other.gain[:4].float())
    optimizer = torch.optim.AdamW([{"params": [other.gain]}, {"params": other.conv.parameters()}])
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ddprun.Error) as e:
        ddprun.snapshot(other, optimizer, folder=tmp_path)
    assert e.value.code == 2
    for line in (
        "model.gain: bfloat16 (4,) in the snapshot, float32 (4,) here",
        "model.conv.weight: float32 (4, 3, 3, 3) in the snapshot, float32 (5, 3, 3, 3) here",
        "model.new.weight: float32 (1, 1) here, not in the snapshot",
        "model.b.weight: float32 (4, 4) in the snapshot, not here",
        "optimizer: groups of [8] parameters in the snapshot, of [1, 2] here",
        "scheduler: in the snapshot, not here",
    ):
        assert f"\n  {line}" in str(e.value), str(e.value)
    assert same(dict(other.state_dict()), dict(before)), "it was changed"


def test_parameters_added_later_come_back_by_prepare(tmp_path: Path) -> None:
    def grow(parts: "tuple[Any, ...]") -> None:
        parts[0].later = nn.Linear(1, 1)
        parts[1].add_param_group({"params": parts[0].later.parameters(), "lr": 0.5})

    parts = adam()[:2]
    state = ddprun.snapshot(*parts, folder=tmp_path, extra={"grown": False})
    trained(parts)
    grow(parts)
    state.extra["grown"] = True
    trained(parts)
    state.save(6, disk=True)
    state.close()
    again = adam()[:2]
    asked = []

    def prepare(step: int, extra: "dict[str, Any]") -> None:
        asked.append(step)
        if extra["grown"]:
            grow(again)

    ddprun.snapshot(*again, folder=tmp_path, extra={"grown": False}, prepare=prepare).close()
    assert asked == [6] and same(state_of(again), state_of(parts))


@pytest.mark.parametrize("name", ["DeepSpeedZeroOptimizer_Stage3", "PipelineEngine"])
def test_what_does_not_tell_its_parts_is_refused(name: str) -> None:
    """Each rank has some of it, and nothing says which."""
    model = nn.Sequential(type(name, (nn.Linear,), {})(1, 1))
    with pytest.raises(ddprun.Error, match=f"the model is a {name}: .*; save it with the engine's own"):
        ddprun.snapshot(model)


def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(ddprun.Error, match="a dict is no part of a snapshot"):
        ddprun.snapshot({"lr": 1})


def test_a_full_disk_is_a_warning_once_and_flush_an_error(tmp_path: Path) -> None:
    model = nn.Linear(64, 64)
    state = ddprun.snapshot(model, folder=tmp_path)
    state.save(0, disk=True)  # gets the memory, which the limit is for, too
    state.flush()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match="training goes on: .*File too large") as told:
            for step in range(1, 5):
                state.save(step, disk=True)
        assert len(told) == 1 and "File too large" in state.unsaved and state.step == 4
        with pytest.raises(ddprun.Error) as e:
            state.flush()
        assert e.value.code == 74 and "step 4" in str(e.value)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    state.save(5, disk=True)
    state.flush()
    assert state.unsaved == ""
    state.close()


def test_a_second_state_is_refused(tmp_path: Path) -> None:
    state = ddprun.snapshot(nn.Linear(1, 1))
    with pytest.raises(ddprun.Error, match="keeps a state already"):
        ddprun.snapshot(nn.Linear(1, 1))
    ddprun.snapshot(nn.Linear(1, 1), folder=tmp_path, memory=False).close()
    state.close()
    ddprun.snapshot(nn.Linear(1, 1)).close()


def test_it_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    import json
    import struct

    model = nn.Linear(2, 3)
    state = ddprun.snapshot(model, folder=tmp_path)
    state.save(1, disk=True)
    state.close()
    (file,) = tmp_path.glob("step-*/shard-00001-of-00001.safetensors")
    content = file.read_bytes()
    (n,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + n])
    begin, end = header["model.weight"]["data_offsets"]
    assert content[8 + n + begin : 8 + n + end] == model.weight.detach().numpy().tobytes()
