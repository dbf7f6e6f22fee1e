"""DeepSpeed's ZeRO, stages 1 and 2.

The model is whole on each rank. The optimizer lays the parameters of a group one behind
the other, and each rank has a part of that row as its own master copy, with a state:
both are Spans, so that any number of ranks can take them.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch

from ._libddp import usage
from ._shards import Span

COUNTERS = ("global_steps", "global_samples", "micro_steps", "skipped_steps")


class Counters:
    """Those of an engine."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def state_dict(self) -> "dict[str, Any]":
        return {name: getattr(self._engine, name) for name in COUNTERS}

    def load_state_dict(self, saved: "dict[str, Any]") -> None:
        vars(self._engine).update(saved)


class Partitions:
    """What this rank has of a DeepSpeedZeroOptimizer."""

    def __init__(self, zero: Any) -> None:
        self._zero = zero
        if zero.round_robin_gradients or zero.has_moe_layers:
            raise usage(
                "ddprun.snapshot does not know how a DeepSpeedZeroOptimizer with round_robin_gradients or experts lays "
                "its parameters; leave them out, or use the engine's own save_checkpoint"
            )

    def _groups(self) -> "Iterator[tuple[Span, dict[str, Any], dict[str, Any]]]":
        """Of each group the master copy, its state and the values."""
        zero = self._zero
        for i, group in enumerate(zero.optimizer.param_groups):
            (master,) = group["params"]
            whole = sum(p.numel() for p in zero.bit16_groups[i]) + sum(zero.round_robin_bit16_padding[i])
            start = torch.distributed.get_rank(zero.real_dp_process_group[i]) * zero.partition_size[i]
            count = master.numel() - zero.groups_padding[i]
            yield Span(master.data, (whole,), start, count), zero.optimizer.state[master], group

    def state_dict(self) -> "dict[str, Any]":
        groups = [
            {"master": span, "state": span.of_all(state), "values": {k: v for k, v in group.items() if k != "params"}}
            for span, state, group in self._groups()
        ]
        return {"groups": groups, "scaler": {k: v for k, v in vars(self._zero.loss_scaler).items() if k != "dtype"}}

    def load_state_dict(self, saved: "dict[str, Any]") -> None:
        for (span, state, group), there in zip(self._groups(), saved["groups"]):
            span.tensor.copy_(there["master"])
            state.update((k, _part(x, span)) for k, x in there["state"].items())
            group.update(there["values"])
        vars(self._zero.loss_scaler).update(saved["scaler"])


def _part(x: Any, span: Span) -> Any:
    """Of a whole row this rank's part: before its first step an optimizer has no state
    that says how that lies."""
    if not isinstance(x, torch.Tensor) or x.shape != span.shape:
        return x
    part = torch.zeros_like(span.tensor, dtype=x.dtype)
    part[: span.count] = x[span.start : span.start + span.count]
    return part
