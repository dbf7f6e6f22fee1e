"""Training of a sharded model with ddprun.snapshot. Prints a digest of the whole
model and its optimizer where it begins and where it ends.

usage: sharded.py LAYOUT STEPS [FOLDER]    PAUSE, OVERLAP, DISK_EVERY, WIDTH: variables

LAYOUT: fsdp, hsdp, tp, fsdp-tp, fsdp1, ddp, zero (ddp with ZeroRedundancyOptimizer), or one
(no process group)
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import ddprun


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Net(nn.Module):
    """Seven rows of `out` are no multiple of anything; `gain` is on no mesh of a
    tensor-parallel model, `scale` has no dims."""

    def __init__(self) -> None:
        super().__init__()
        width = int(os.environ.get("WIDTH", 16))
        self.up, self.out = nn.Linear(8, width), nn.Linear(width, 7)
        self.gain = nn.Parameter(torch.rand(7))
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.up(x).relu()) * self.gain * self.scale


def made(layout: str, world: int) -> "tuple[Any, int]":
    """The model, and which share of the data this rank takes."""
    model: Any = Net()
    rank = ddprun.place().rank
    if layout in ("ddp", "zero"):
        return DistributedDataParallel(model), rank
    if layout == "fsdp1":
        model.up = FullyShardedDataParallel(model.up, use_orig_params=True, device_id=torch.device("cpu"))
        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu")), rank
    if layout == "one":
        return model, rank
    halves = {"hsdp": ("replicate", "shard"), "fsdp-tp": ("dp", "tp")}
    names = halves.get(layout, (layout,))
    mesh = init_device_mesh("cpu", (2, world // 2) if layout in halves else (world,), mesh_dim_names=names)
    if "tp" in names:
        parallelize_module(model, mesh["tp"], {"up": ColwiseParallel(), "out": RowwiseParallel()})
    if layout != "tp":
        shards = mesh["dp"] if layout == "fsdp-tp" else mesh
        fully_shard(model.up, mesh=shards)
        fully_shard(model, mesh=shards)
    return model, {"tp": 0, "fsdp-tp": rank // 2}.get(layout, rank)


def whole(x: Any) -> torch.Tensor:
    return (x.full_tensor() if hasattr(x, "full_tensor") else x).detach()


def parameters(model: nn.Module) -> "list[torch.Tensor]":
    """As they are sharded; of FSDP1 whole ones. Collective."""
    if not isinstance(model, FullyShardedDataParallel):
        return [p.detach() for p in model.parameters()]
    with FullyShardedDataParallel.summon_full_params(model, writeback=False):
        return [p.detach().clone() for p in model.parameters()]


def states(model: nn.Module, optimizer: torch.optim.Optimizer) -> "list[dict[str, Any]]":
    """Of the optimizer, for each parameter, in the same way. Collective."""
    mine = [getattr(optimizer, "optim", optimizer).state.get(p, {}) for p in model.parameters()]
    if not isinstance(model, FullyShardedDataParallel) and not isinstance(optimizer, ZeroRedundancyOptimizer):
        return mine
    # FullyShardedDataParallel.optim_state_dict has one memory for all on CPUs.
    all_of_them: "list[Any]" = [None] * ddprun.place().world
    dist.all_gather_object(all_of_them, mine)
    return [{key: joined([x[key] for x in each if x]) for key in max(each, key=len)} for each in zip(*all_of_them)]


def joined(parts: "list[torch.Tensor]") -> torch.Tensor:
    return torch.cat(parts) if parts[0].dim() > 0 else parts[0]


def digest(model: nn.Module, optimizer: torch.optim.Optimizer, averages: "list[torch.Tensor]") -> str:
    """Of all of it, however it is sharded. Collective."""
    total = hashlib.sha256()
    for p, average, state in zip(parameters(model), averages, states(model, optimizer)):
        for x in (p, average, *(state[key] for key in sorted(state))):
            total.update(whole(x).numpy().tobytes())
    return total.hexdigest()[:16]


def main() -> None:
    layout, steps = sys.argv[1], int(sys.argv[2])
    if layout != "one":
        dist.init_process_group("gloo")
    at = ddprun.place()
    torch.manual_seed(1 + at.restart_count)  # what is restored is another one
    model, share = made(layout, at.world)
    if layout == "zero":
        optimizer: torch.optim.Optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    averages = [p.clone() for p in parameters(model)]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    state = ddprun.snapshot(
        model,
        optimizer,
        schedule,
        folder=sys.argv[3] if len(sys.argv) > 3 else None,
        disk_every=int(os.environ.get("DISK_EVERY", 0)),
        overlap=bool(os.environ.get("OVERLAP")),
        copies=int(os.environ.get("COPIES", 2)),
        extra={"averages": averages, "none": ddprun.Piece(torch.empty(0, 2), (0, 2), (0, 0))},
    )
    where = "memory" if state.from_memory else "disk" if state.restored else "nothing"
    say("pid", os.getpid(), "rank", at.rank)
    began = digest(model, optimizer, averages)
    if at.rank == 0:
        say("began", state.step, "of", at.world, "from", where, "with", began, state.why)
    for step in range(state.step, steps):
        x = torch.rand(4, 8, generator=torch.Generator().manual_seed(100 * step + share))
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for average, p in zip(averages, parameters(model)):
            average.mul_(0.5).add_(p, alpha=0.5)
        schedule.step()
        time.sleep(float(os.environ.get("PAUSE", 0)))
        say("step", step + 1, "rank", at.rank, "loss", loss.item().hex())
        state.save(step + 1)
    ended = digest(model, optimizer, averages)
    state.flush()
    if at.rank == 0:
        say("digest", ended)
    state.close()
    if layout != "one":
        dist.destroy_process_group()


main()
sys.stdout.flush()
os._exit(0)  # threads of gloo outlive the group, and abort now and then
