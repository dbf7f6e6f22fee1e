"""What a snapshot is made of: a model, optimizers, what else has a state.

Each part has a name in the snapshot; a restarted program gives the same ones in
the same order. Before any of them is changed, all are compared with what was
saved.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterator, Sequence, Union

import torch
from torch.nn.parallel import DistributedDataParallel

from . import _deepspeed, _fsdp1
from ._job import place
from ._libddp import Error, usage
from ._shards import Span, is_sharded
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


def buffers_of_this_rank(parts: "dict[str, Any]") -> "dict[str, tuple[str, str]]":
    """The statistics of batch norm in sharded models, since each rank has seen other
    samples: part and key, by the name under which a rank of the same number in a world
    of the same size finds its own."""
    at = place()
    found = {}
    for name, part in parts.items():
        if at.world == 1 or not isinstance(part, torch.nn.Module) or not is_sharded_model(part):
            continue
        for path, module in part.named_modules():
            if isinstance(module, torch.nn.modules.batchnorm._NormBase):
                for of in (of for of, x in module._buffers.items() if x is not None):
                    key = _fsdp1.clean(f"{path}.{of}" if path else of)
                    found[f"{name}.{key}@{at.rank}/{at.world}"] = name, key
    return found


# What has a part of the state on each rank, and does not tell which.
OPAQUE = ("DeepSpeedZeroOptimizer_Stage3", "PipelineEngine")


def _kinds(part: Any) -> "set[str]":
    """The names of its classes, of which some stand in modules that may not be there."""
    return {kind.__name__ for kind in type(part).__mro__}


def _refuse(name: str, part: Any) -> None:
    within = part.modules() if isinstance(part, torch.nn.Module) else ()
    for found in sorted(_kinds(part).union(*map(_kinds, within)).intersection(OPAQUE)):
        raise usage(
            f"{name} is a {found}: each rank has a part of the state, and nothing says which, so ddprun.snapshot "
            "cannot put it together; save it with the engine's own save_checkpoint"
        )
    if getattr(part, "_overlap_with_ddp", False):
        raise usage(
            f"{name} is a ZeroRedundancyOptimizer that overlaps with DistributedDataParallel: before its first steps "
            "it has no state that could be restored; leave overlap_with_ddp out"
        )


def _opened(part: Any) -> "list[Any]":
    """What of DeepSpeed stands in a snapshot; anything else as it is."""
    kinds = _kinds(part)
    if kinds.intersection(OPAQUE):
        return [part]
    if "DeepSpeedEngine" in kinds:
        _refuse("the engine's optimizer", part.optimizer)
        return [part.module, _deepspeed.Counters(part)]
    return [_deepspeed.Partitions(part)] if "DeepSpeedZeroOptimizer" in kinds else [part]


def state_of(model: torch.nn.Module) -> "dict[str, Any]":
    """Its parameters and buffers, those themselves, and what else is in its state_dict."""
    return _fsdp1.state_of(model) if _fsdp1.is_wrapped(model) else model.state_dict(keep_vars=True)


def is_zero_redundancy(optimizer: torch.optim.Optimizer) -> bool:
    """ZeroRedundancyOptimizer: each parameter has its state on one rank."""
    return "ZeroRedundancyOptimizer" in _kinds(optimizer)


def local(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The one that has this rank's state."""
    return optimizer.optim if is_zero_redundancy(optimizer) else optimizer  # type: ignore[attr-defined]


def is_sharded_model(model: torch.nn.Module) -> bool:
    return _fsdp1.is_wrapped(model) or any(map(is_sharded, (*model.parameters(), *model.buffers())))


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
    for part in (x for each in given if each is not None for x in _opened(each)):
        if not has_state(part):
            raise usage(
                f"a {type(part).__name__} is no part of a snapshot: it has no state_dict() and "
                "load_state_dict(); give plain data as extra={...}"
            )
        kind = _kind(part)
        _refuse(f"the {kind}", part)
        part = unwrapped(part) if kind == "model" else part
        name, n = kind, 1
        while name in parts:
            n += 1
            name = f"{kind}{n}"
        parts[name] = part
    return parts


# -- is what was saved of this program? ----------------------------------------


def shape_of(x: "tuple[torch.dtype, Any]") -> str:
    dtype, shape = x
    return f"{str(dtype).split('.')[1]} {tuple(shape)}"


def _shape(x: Any) -> str:
    known = isinstance(x, torch.Tensor) or is_sharded(x)
    return shape_of((x.dtype, x.shape)) if known else f"a {type(x).__name__}"


def _of_model(name: str, model: torch.nn.Module, saved: "dict[str, Any]") -> Iterator[str]:
    here = state_of(model)
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
    else:  # by_index has left the names of those that are not here
        for group in saved["param_groups"]:
            yield from (f"{name}.{p}: in the snapshot, not here" for p in group["params"] if isinstance(p, str))


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


def check(parts: "dict[str, Any]", saved: "dict[str, Any]", others: "Sequence[str]" = ()) -> None:
    """Error: the snapshot is of another program; nothing has changed yet. `others`:
    differences that are known already."""
    found = sorted([*differences(parts, saved), *others])
    if not found:
        return
    lines = found[:SHOWN_MAX]
    if len(found) > SHOWN_MAX:
        lines.append(f"and {len(found) - SHOWN_MAX} more")
    raise usage(
        "the snapshot does not fit this program; use another folder, or make the program as it was:\n  "
        + "\n  ".join(lines)
    )


# -- optimizers by the names of their parameters -------------------------------

# In a state_dict() an optimizer counts its parameters. Ranks of a pipeline count
# different ones, and so does a program that has another order.

ParameterName = Union[str, int]  # a number: of one that no model has


def parameter_names(parts: "dict[str, Any]") -> "dict[int, str]":
    """Those of the models' parameters, by id()."""
    names: dict[int, str] = {}
    for name, part in parts.items():
        if isinstance(part, torch.nn.Module):
            for of, p in part.named_parameters():
                of = _fsdp1.clean(of)
                names.setdefault(id(p), of if name == "model" else f"{name}.{of}")
    return names


Spans = Dict[int, Span]  # by id() of a parameter of FSDP1


def spans_of(parts: "dict[str, Any]") -> Spans:
    """Of the models' parameters."""
    models = [part for part in parts.values() if isinstance(part, torch.nn.Module)]
    return {of: span for model in models for of, span in _fsdp1.spans_of(model).items()}


def _groups_by_name(optimizer: torch.optim.Optimizer, names: "dict[int, str]") -> "list[list[ParameterName]]":
    groups: list[list[ParameterName]] = []
    before = 0
    for group in optimizer.param_groups:
        groups.append([names.get(id(p), before + i) for i, p in enumerate(group["params"])])
        before += len(group["params"])
    return groups


def tells_itself(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its state_dict() is more than what stands in it."""
    if is_zero_redundancy(optimizer):
        return False
    own = type(optimizer).state_dict is not torch.optim.Optimizer.state_dict
    return own or any(
        len(getattr(optimizer, f"_optimizer_state_dict_{hooks}_hooks", ())) > 0 for hooks in ("pre", "post")
    )


def _without_params(groups: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    return [{k: v for k, v in group.items() if k != "params"} for group in groups]


def groups_of(optimizer: torch.optim.Optimizer) -> "dict[str, Any]":
    return {"param_groups": _without_params(optimizer.param_groups)}


def by_name(
    optimizer: torch.optim.Optimizer, names: "dict[int, str]", spans: Spans
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """Its state, and what else it has."""
    groups = _groups_by_name(optimizer, names)
    if not tells_itself(optimizer):
        of = {id(p): name for g, group in zip(groups, optimizer.param_groups) for name, p in zip(g, group["params"])}
        states = ((p, state, spans.get(id(p))) for p, state in local(optimizer).state.items())
        state = {of.get(id(p), p): span.of_all(state) if span is not None else state for p, state, span in states}
        return {"params": groups, "state": state}, groups_of(optimizer)
    rest = dict(optimizer.state_dict())
    flat = [name for group in groups for name in group]
    state = {flat[i] if isinstance(i, int) else i: state for i, state in rest.pop("state", {}).items()}
    rest["param_groups"] = _without_params(rest["param_groups"])
    return {"params": groups, "state": state}, rest


def joined(tree: "dict[str, Any]", rest: "dict[str, Any]") -> "dict[str, Any]":
    """Both of `by_name`, with names in place of numbers still."""
    groups = [{**group, "params": params} for group, params in zip(rest["param_groups"], tree["params"])]
    return {**rest, "state": tree["state"], "param_groups": groups}


def by_index(
    optimizer: torch.optim.Optimizer, saved: "dict[str, Any]", names: "dict[int, str]"
) -> "dict[str, Any]":
    """With the numbers that the parameters have here; a name that is not here stays."""
    here = _groups_by_name(optimizer, names)
    number = {name: i for i, name in enumerate(name for group in here for name in group)}
    groups = []
    for group, mine in zip(saved["param_groups"], here):
        same = set(group["params"]) == set(mine)
        params = mine if same else group["params"]  # load_state_dict goes by their order
        groups.append({**group, "params": [number.get(p, p) for p in params]})
    state = {number.get(name, name): state for name, state in saved["state"].items()}
    return {**saved, "param_groups": groups + saved["param_groups"][len(groups) :], "state": state}


def without_others(optimizer: torch.optim.Optimizer, saved: "dict[str, Any]", spans: Spans) -> "dict[str, Any]":
    """Without the state of parameters that this rank has nothing of: it would not step
    with that of the others."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    mine = {id(p) for group in local(optimizer).param_groups for p in group["params"]}
    mine -= {of for of, span in spans.items() if span.tensor.numel() == 0}
    others = {i for i, p in enumerate(params) if id(p) not in mine}
    return {**saved, "state": {i: state for i, state in saved["state"].items() if i not in others}}


def _merged_model(model: torch.nn.Module, found: "list[Any]") -> Any:
    state = copy.copy(found[0])
    state.clear()
    here = state_of(model)
    for each in found:
        state.update((key, value) for key, value in each.items() if key in here)
        getattr(state, "_metadata", {}).update(getattr(each, "_metadata", {}))
    return state


def _merged_optimizer(optimizer: torch.optim.Optimizer, found: "list[Any]", names: "dict[int, str]") -> Any:
    here = _groups_by_name(optimizer, names)
    groups = [dict(group) for group in found[0]["param_groups"]]
    for i, (group, mine) in enumerate(zip(groups, here)):
        saved = {p for each in found if i < len(each["param_groups"]) for p in each["param_groups"][i]["params"]}
        group["params"] = [p for p in mine if p in saved]
    known = {p for group in here for p in group}
    state = {p: state for each in found for p, state in each["state"].items() if p in known}
    return {**found[0], "state": state, "param_groups": groups}


def merged(
    found: "list[tuple[dict[str, Any], dict[str, Any]]]", parts: "dict[str, Any]", names: "dict[int, str]"
) -> "tuple[dict[str, Any], dict[str, Any]]":
    """The parts and the extra of several ranks, as far as a rank wants them here: one
    of a pipeline has some layers of the model only. Values are of the rank that had
    most of what is here."""
    if len(found) == 1:
        return found[0]
    models = {name: part for name, part in parts.items() if isinstance(part, torch.nn.Module)}
    here = [(name, key) for name, model in models.items() for key in state_of(model)]
    found = sorted(found, key=lambda each: -sum(key in each[0].get(name, ()) for name, key in here))
    saved = dict(found[0][0])
    for name, part in parts.items():
        those = [each[name] for each, _ in found if name in each]
        if those and isinstance(part, torch.nn.Module):
            saved[name] = _merged_model(part, those)
        elif those and isinstance(part, torch.optim.Optimizer):
            saved[name] = _merged_optimizer(part, those, names)
    return saved, found[0][1]


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
        if isinstance(part, torch.optim.Optimizer) and is_zero_redundancy(part):
            part.load_state_dict(copy.copy(saved))
            part.state.clear()  # its own has a second copy of all
        elif isinstance(part, torch.optim.Optimizer):
            _load_optimizer(part, saved)
        elif isinstance(part, torch.nn.Module) and _fsdp1.is_wrapped(part):
            _fsdp1.load(part, saved)
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
