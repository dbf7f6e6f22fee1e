"""FullyShardedDataParallel, the FSDP before fully_shard.

It lays the parameters of a unit one behind the other and cuts that row of elements
into as many parts as there are ranks. With `use_orig_params` each parameter has a view
of what is here of it, or is empty, and the snapshot has the parameters of the whole
model: any other layout can take them. Without, optimizers know the row alone, and the
snapshot has rows (`_flat_param`): any number of ranks can take them, in the same units.

state_dict() would gather whole parameters on each rank, so it is left alone: all is
read, and written, where it lies.
"""

from __future__ import annotations

import sys
from typing import Any, Iterator

import torch

from ._shards import Span

EXTRA_STATE = "_extra_state"  # what a module keeps by get_extra_state
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # no part of the name of a parameter


def clean(name: str) -> str:
    """The name in the model without wrappers."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def _units(model: torch.nn.Module) -> "Iterator[Any]":
    fsdp: Any = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")  # nobody has one without
    for module in model.modules() if fsdp is not None else ():
        if isinstance(module, fsdp.FullyShardedDataParallel):
            yield module


def is_wrapped(model: torch.nn.Module) -> bool:
    return next(_units(model), None) is not None


def spans_of(model: torch.nn.Module) -> "dict[int, Span]":
    """What is here of each parameter that is cut, by id()."""
    spans: dict[int, Span] = {}
    for unit in _units(model):
        handle = unit._handle
        if handle is None or not handle.uses_sharded_strategy:
            continue
        flat = handle.flat_param
        if flat._params is None:
            count = flat.numel() - flat._shard_numel_padded
            spans[id(flat)] = Span(flat.data, flat._unpadded_unsharded_size, handle.rank * flat.numel(), count)
            continue
        for p, shape, contiguous, here in zip(
            flat._params, flat._shapes, flat._contiguities, flat._shard_param_infos
        ):
            shape = shape if contiguous and len(shape) > 0 else (shape.numel(),)
            at, n = here.offset_in_shard or 0, here.numel_in_shard or 0
            spans[id(p)] = Span(flat.data[at : at + n], shape, here.intra_param_start_idx or 0, n)
    return spans


def state_of(model: torch.nn.Module) -> "dict[str, Any]":
    """As state_dict(keep_vars=True), with a Span for each parameter that is cut."""
    spans = spans_of(model)
    state: dict[str, Any] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        module._save_to_state_dict(state, f"{name}." if name else "", True)
    return {clean(name): spans.get(id(x), x) for name, x in state.items()}


def load(model: torch.nn.Module, saved: "dict[str, Any]") -> None:
    """What `state_of` gave; of a Span its tensor."""
    modules = {clean(f"{name}." if name else ""): m for name, m in model.named_modules(remove_duplicate=False)}
    with torch.no_grad():
        for name, mine in state_of(model).items():
            if name.endswith(EXTRA_STATE):
                modules[name[: -len(EXTRA_STATE)]].set_extra_state(saved[name])
            else:
                (mine.tensor if isinstance(mine, Span) else mine).copy_(saved[name])
