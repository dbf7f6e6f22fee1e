"""What a snapshot is made of: a model, optimizers, what else has a state.

Each part has a name in the snapshot; a restarted program gives the same ones in
the same order. Before any of them is changed, all are compared with what was
saved.
"""

from __future__ import annotations

import copy
from typing import Any, Iterator

import torch
from torch.nn.parallel import DistributedDataParallel

from ._libddp import Error, usage
from ._tree import put_in_place

SHOWN_MAX = 20  # differences in an error


def _layers(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The model, and what is in DistributedDataParallel and torch.compile."""
    inner: Any = model
    while inner is not None:
        yield inner
        wrapped = isinstance(inner, (DistributedDataParallel, torch.nn.DataParallel))
        inner = inner.module if wrapped else getattr(inner, "_orig_mod", None)


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """Without DistributedDataParallel and torch.compile around it."""
    return list(_layers(model))[-1]


def with_buffers_of_rank_0(given: "tuple[Any, ...]") -> "list[torch.nn.Module]":
    """The models whose buffers DistributedDataParallel takes from rank 0 before
    each step. After a step those of the ranks differ: batch norm has seen other
    samples on each."""
    return [
        unwrapped(part)
        for part in given
        if isinstance(part, torch.nn.Module)
        and any(isinstance(x, DistributedDataParallel) and x.broadcast_buffers for x in _layers(part))
    ]


def _refuse_sharded(name: str, part: Any) -> None:
    """Each rank has but a part of these, and a snapshot takes one rank's."""
    kinds = {kind.__name__ for kind in type(part).__mro__}
    if isinstance(part, torch.nn.Module):
        for module in part.modules():
            kinds |= {kind.__name__ for kind in type(module).__mro__}
        kinds |= {type(t).__name__ for t in part.parameters()}
    found = kinds & {
        "FullyShardedDataParallel",
        "FSDPModule",
        "DTensor",
        "ZeroRedundancyOptimizer",
        "DeepSpeedEngine",
        "DeepSpeedZeroOptimizer",
        "DeepSpeedZeroOptimizer_Stage3",
    }
    if found:
        raise usage(
            f"{name} is sharded ({', '.join(sorted(found))}): each rank has a part of the state, and "
            "ddprun.snapshot keeps a state that all ranks have; save it with torch.distributed.checkpoint"
        )


def _kind(part: Any) -> str:
    if isinstance(part, torch.nn.Module):
        return "model"
    if isinstance(part, torch.optim.Optimizer):
        return "optimizer"
    if type(part).__name__.endswith("GradScaler"):
        return "scaler"
    if isinstance(part, (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)):
        return "scheduler"
    return type(part).__name__.lower()


def has_state(x: Any) -> bool:
    """Whether it keeps its own state, as PyTorch's objects do."""
    return callable(getattr(x, "state_dict", None)) and callable(getattr(x, "load_state_dict", None))


def named(given: "tuple[Any, ...]") -> "dict[str, Any]":
    """The parts by their names: model, model2, optimizer, scheduler ..."""
    parts: dict[str, Any] = {}
    for part in given:
        if part is None:
            continue
        if not has_state(part):
            raise usage(
                f"a {type(part).__name__} is no part of a snapshot: it has no state_dict() and "
                "load_state_dict(); give plain data as extra={...}"
            )
        kind = _kind(part)
        _refuse_sharded(f"the {kind}", part)
        part = unwrapped(part) if kind == "model" else part
        name, n = kind, 1
        while name in parts:
            n += 1
            name = f"{kind}{n}"
        parts[name] = part
    return parts


# -- is what was saved of this program? ----------------------------------------


def _shape(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).split('.')[1]} {tuple(x.shape)}"
    return f"a {type(x).__name__}"


def _of_model(name: str, model: torch.nn.Module, saved: "dict[str, Any]") -> Iterator[str]:
    here = model.state_dict()
    for key in here.keys() - saved.keys():
        yield f"{name}.{key}: {_shape(here[key])} here, not in the snapshot"
    for key in saved.keys() - here.keys():
        yield f"{name}.{key}: {_shape(saved[key])} in the snapshot, not here"
    for key in here.keys() & saved.keys():
        own = key.rpartition(".")[2] == "_extra_state"  # as large as get_extra_state() makes it
        if not own and _shape(here[key]) != _shape(saved[key]):
            yield f"{name}.{key}: {_shape(saved[key])} in the snapshot, {_shape(here[key])} here"


def _of_optimizer(name: str, optimizer: torch.optim.Optimizer, saved: "dict[str, Any]") -> Iterator[str]:
    here = [len(group["params"]) for group in optimizer.param_groups]
    there = [len(group["params"]) for group in saved["param_groups"]]
    if here != there:
        yield f"{name}: groups of {there} parameters in the snapshot, of {here} here"


def differences(parts: "dict[str, Any]", saved: "dict[str, Any]") -> "list[str]":
    """What of a snapshot does not fit these parts, a line for each."""
    found = [f"{name}: not in the snapshot" for name in parts if name not in saved]
    found += [f"{name}: in the snapshot, not here" for name in saved if name not in parts]
    for name in parts.keys() & saved.keys():
        part = parts[name]
        if isinstance(part, torch.nn.Module):
            found += _of_model(name, part, saved[name])
        elif isinstance(part, torch.optim.Optimizer):
            found += _of_optimizer(name, part, saved[name])
    return sorted(found)


def check(parts: "dict[str, Any]", saved: "dict[str, Any]") -> None:
    """Error: the snapshot is of another program; nothing has changed yet."""
    found = differences(parts, saved)
    if not found:
        return
    lines = found[:SHOWN_MAX]
    if len(found) > SHOWN_MAX:
        lines.append(f"and {len(found) - SHOWN_MAX} more")
    raise usage(
        "the snapshot does not fit this program; use another folder, or make the program as it was:\n  "
        + "\n  ".join(lines)
    )


# -- to and from ---------------------------------------------------------------


def _load_optimizer(optimizer: torch.optim.Optimizer, saved: "dict[str, Any]") -> None:
    """load_state_dict gives each state the dtype of its parameter; that of a
    float32 master of a bfloat16 parameter must stay."""
    optimizer.load_state_dict(saved)
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for i, state in saved["state"].items():
        mine = optimizer.state[params[i]]
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and mine[key].dtype != value.dtype:
                mine[key] = value.to(mine[key].device, copy=True)


def load(name: str, part: Any, saved: Any) -> None:
    """Gives a part its saved state."""
    try:
        if isinstance(part, torch.optim.Optimizer):
            _load_optimizer(part, saved)
        else:
            part.load_state_dict(copy.copy(saved))
    except Error:
        raise
    except Exception as e:
        raise usage(f"{name} does not take its state from the snapshot: {e}") from e


def own_state(x: Any) -> Any:
    """The state of an object that has one, or plain data as it is."""
    return x.state_dict() if has_state(x) else x


def load_values(mine: "dict[str, Any]", saved: "dict[str, Any]") -> None:
    """extra and per_rank: objects get their state, and lists, dicts, tensors and
    the like their content. What was not saved stays; what was saved and is not
    here comes as data."""
    plain = {}
    for name, value in saved.items():
        if has_state(mine.get(name)):
            load(name, mine[name], value)
        else:
            plain[name] = value
    mine.update(put_in_place({name: mine[name] for name in plain if name in mine}, plain))
