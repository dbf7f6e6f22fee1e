"""Sharded training as users have it, each case in a few lines, with ddprun.snapshot.
Each rank prints a digest of all that there is where it begins and where it ends.

usage: framework_jobs.py CASE[,CASE...] STEPS [FOLDER]    PAUSE, DISK_EVERY, KEEP, DIGESTS (after
each step): variables
"""

from __future__ import annotations

import copy
import hashlib
import os
import sys
import time
from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import ddprun


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Case(NamedTuple):
    """parts: what is given to ddprun.snapshot. train(step): takes one, gives the loss."""

    parts: "list[Any]"
    train: "Callable[[int], torch.Tensor]"
    extra: "dict[str, Any]" = {}
    per_rank: "dict[str, Any]" = {}
    prepare: Any = None


class Net(nn.Module):
    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.up, self.out = nn.Linear(8, 16), nn.Linear(16, 7)
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.out(self.norm(self.up(x)).relu())
        return out


def batch(step: int, *shape: int) -> torch.Tensor:
    drawn = torch.Generator().manual_seed(100 * step + ddprun.place().rank)
    return torch.rand(*(shape or (4, 8)), generator=drawn)


def sharded(model: nn.Module, *layers: nn.Module, **how: Any) -> nn.Module:
    for layer in layers:
        fully_shard(layer, **how)
    return fully_shard(model, **how)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)


def plainly(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    after: "Callable[[], None]" = lambda: None,
    draw: "Callable[[int], torch.Tensor]" = batch,
) -> Any:
    """A training step of it."""

    def train(step: int) -> torch.Tensor:
        loss: torch.Tensor = model(draw(step)).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        after()
        return loss.detach()

    return train


# -- PyTorch alone -------------------------------------------------------------


def mixed() -> Case:
    """bfloat16 in forward and backward."""
    model: Any = Net()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded(model, model.up, mp_policy=policy)
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=1000)
    return Case([model, optimizer, schedule], plainly(model, optimizer, schedule.step))


def compiled() -> Case:
    model: Any = Net()
    sharded(model, model.up)
    fast = torch.compile(model, backend=os.environ.get("BACKEND", "aot_eager"))
    optimizer = adam(model)
    return Case([fast, optimizer], plainly(fast, optimizer))


def hsdp() -> Case:
    model: Any = Net()
    mesh = init_device_mesh("cpu", (2, ddprun.place().world // 2), mesh_dim_names=("replicate", "shard"))
    sharded(model, model.up, mesh=mesh)
    optimizer = adam(model)
    return Case([model, optimizer], plainly(model, optimizer))


def frozen() -> Case:
    """One layer has no gradient, and no state in the optimizer."""
    model: Any = Net()
    model.up.requires_grad_(False)
    sharded(model, model.up)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Case([model, optimizer], plainly(model, optimizer))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.inner, self.head = nn.Linear(8, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.inner(self.words((x * 11).long())))
        return out


def tied() -> Case:
    model: Any = Tied()
    sharded(model, model.inner)
    optimizer = adam(model)
    return Case([model, optimizer], plainly(model, optimizer))


def norm() -> Case:
    """The buffers of batch norm: each rank has seen other samples."""
    model: Any = Net(norm=True)
    sharded(model, model.up)
    optimizer = adam(model)
    return Case([model, optimizer], plainly(model, optimizer))


class Master(torch.optim.Optimizer):
    """SGD on a float32 copy of each bfloat16 parameter."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-2})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p not in self.state or not self.state[p]:
                    self.state[p]["master"] = p.detach().float().clone()
                self.state[p]["master"].add_(p.grad.float(), alpha=-group["lr"])
                p.copy_(self.state[p]["master"])


def master() -> Case:
    model: Any = Net().to(torch.bfloat16)
    sharded(model, model.up)
    optimizer = Master(model.parameters())
    return Case([model, optimizer], plainly(model, optimizer, draw=lambda step: batch(step).bfloat16()))


def unfreeze() -> Case:
    """At step 8 the first layer begins to learn, with a group of its own."""
    model: Any = Net()
    model.up.requires_grad_(False)
    sharded(model, model.up)
    optimizer = torch.optim.AdamW(model.out.parameters(), lr=1e-2)

    def learn() -> None:
        model.up.requires_grad_(True)
        optimizer.add_param_group({"params": list(model.up.parameters()), "lr": 1e-3})

    plain = plainly(model, optimizer)

    def train(step: int) -> Any:
        if step == 8:
            learn()
        return plain(step)

    return Case([model, optimizer], train, prepare=lambda step, extra: learn() if step > 8 else None)


def averaged() -> Case:
    """A second, averaged model, sharded as the first is."""
    model: Any = Net()
    mean: Any = copy.deepcopy(model).requires_grad_(False)
    sharded(model, model.up)
    sharded(mean, mean.up)
    optimizer = adam(model)

    def average() -> None:
        with torch.no_grad():
            for mine, p in zip(mean.parameters(), model.parameters()):
                mine.lerp_(p, 0.1)

    return Case([model, mean, optimizer], plainly(model, optimizer, average))


def averaged_dict() -> Case:
    """The same as sharded tensors in `extra`."""
    model: Any = Net()
    sharded(model, model.up)
    mean = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = adam(model)

    def average() -> None:
        with torch.no_grad():
            for name, p in model.named_parameters():
                mean[name].lerp_(p, 0.1)

    return Case([model, optimizer], plainly(model, optimizer, average), extra={"mean": mean})


def averaged_model() -> Case:
    """PyTorch's AveragedModel, which takes a copy of the model."""
    model: Any = Net()
    mean: Any = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    sharded(mean.module, mean.module.up)
    sharded(model, model.up)
    optimizer = adam(model)
    return Case([model, mean, optimizer], plainly(model, optimizer, lambda: mean.update_parameters(model)))


# -- frameworks ----------------------------------------------------------------


def accelerated() -> Case:
    from accelerate import Accelerator, FullyShardedDataParallelPlugin

    from accelerate_on_cpus import let_accelerate_shard

    let_accelerate_shard()
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="size_based_wrap",
        min_num_params=100,
        mixed_precision_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    )
    accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
    net = Net()
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=1e-2))
    schedule = accelerator.prepare(torch.optim.lr_scheduler.StepLR(optimizer, 5))
    assert all(hasattr(p, "full_tensor") for p in model.parameters())

    def train(step: int) -> Any:
        with accelerator.accumulate(model):
            loss = model(batch(step)).float().square().mean()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        return loss.detach()

    return Case([model, optimizer, schedule], train)


def lora() -> Case:
    """PEFT's adapters on a frozen model."""
    from peft import LoraConfig, get_peft_model

    model: Any = get_peft_model(Net(), LoraConfig(r=2, target_modules=["up", "out"], lora_dropout=0.1))
    sharded(model, model.base_model.model.up)
    optimizer = adam(model)
    return Case([model, optimizer], plainly(model, optimizer))


def loader() -> Case:
    """torchdata's loader has its own state. It has a generator for itself, since a restart
    makes an iterator once more, and that draws a number."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    model: Any = Net()
    sharded(model, model.up)
    optimizer = adam(model)
    data: Any = torch.rand(100, 8, generator=torch.Generator().manual_seed(7))
    sampler = StatefulDistributedSampler(data, shuffle=True, seed=3)
    batches = StatefulDataLoader(data, batch_size=4, sampler=sampler, generator=torch.Generator())
    place = {"epoch": 0}
    under_way: "list[Any]" = []

    def draw(step: int) -> Any:
        if not under_way:
            sampler.set_epoch(place["epoch"])
            under_way.append(iter(batches))
        x = next(under_way[0], None)
        if x is None:
            place["epoch"] += 1
            under_way.clear()
            return draw(step)
        return x

    train = plainly(model, optimizer, draw=draw)
    return Case([model, optimizer], train, extra={"epoch": place}, per_rank={"data": batches})


def eight_bits(wrap: Any = nn.parallel.DistributedDataParallel) -> Case:
    """bitsandbytes' optimizer, whose state is of bytes."""
    import bitsandbytes

    model: Any = wrap(nn.Linear(128, 128))
    optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-2, min_8bit_size=64)
    return Case([model, optimizer], plainly(model, optimizer, draw=lambda step: batch(step, 4, 128)))


def eight_bits_sharded() -> Case:
    return eight_bits(sharded)


def zero(stage: int = 1, width: "dict[str, Any]" = {}) -> Case:
    """DeepSpeed. It compiles its communication for CPUs, once, by ninja of this Python."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    os.environ["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    import deepspeed

    model = Net()
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": stage},
            **width,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
        },
    )

    def train(step: int) -> torch.Tensor:
        for master, parts in zip(optimizer.single_partition_of_fp32_groups, optimizer.parallel_partitioned_bit16_groups):
            assert torch.equal(master.to(parts[0].dtype), parts[ddprun.place().rank])
        loss: torch.Tensor = engine(batch(step).to(next(model.parameters()).dtype)).float().square().mean()
        engine.backward(loss)
        engine.step()
        return loss.detach()

    return Case([engine, optimizer], train)


def zero2() -> Case:
    """bfloat16, with a master of float32."""
    return zero(2, {"bf16": {"enabled": True}, "communication_data_type": "fp32"})


def fsdp1(**how: Any) -> Case:
    """Two units. Seven rows in two parts: one is cut in two, and each rank has seen other
    samples, which batch norm remembers."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    how["device_id"] = torch.device("cpu")
    net: Any = Net(norm=True)
    net.up = FullyShardedDataParallel(net.up, **how)
    model = FullyShardedDataParallel(net, **how)
    optimizer = adam(model)
    return Case([model, optimizer], plainly(model, optimizer))


def fsdp1_orig() -> Case:
    return fsdp1(use_orig_params=True)


def zero_redundancy() -> Case:
    """Each parameter has its state on one rank."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model: Any = nn.parallel.DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    return Case([model, optimizer, schedule], plainly(model, optimizer, schedule.step))


# -- the loop ------------------------------------------------------------------


def tensors_of(x: Any) -> "list[torch.Tensor]":
    """All of them, in one order."""
    if isinstance(x, torch.Tensor):
        return [x.full_tensor() if hasattr(x, "full_tensor") else x]
    if isinstance(x, dict):
        return [t for key in sorted(x, key=str) for t in tensors_of(x[key])]
    if isinstance(x, (list, tuple)):
        return [t for each in x for t in tensors_of(each)]
    return [torch.tensor(float(x))] if isinstance(x, (int, float)) else []


def digest(case: Case) -> str:
    """Of all that this rank can know. Collective."""
    total = hashlib.sha256()
    for x in (*(getattr(part, "optim", part) for part in case.parts), case.extra):
        for t in tensors_of(x.state_dict() if hasattr(x, "state_dict") else x):
            total.update(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]


def made(name: str) -> Case:
    torch.manual_seed(1)
    case: Case = globals()[name]()
    return case


def kept(cases: "dict[str, Case]", folder: "list[str]") -> ddprun.State:
    """One snapshot of them all."""

    def prepare(step: int, extra: "dict[str, Any]") -> None:
        for case in cases.values():
            if case.prepare is not None:
                case.prepare(step, extra)

    return ddprun.snapshot(
        *(part for case in cases.values() for part in case.parts),
        folder=folder[0] if folder else None,
        disk_every=int(os.environ.get("DISK_EVERY", 0)),
        keep=int(os.environ.get("KEEP", 2)),
        extra={name: x for case in cases.values() for name, x in case.extra.items()},
        per_rank={name: x for case in cases.values() for name, x in case.per_rank.items()},
        prepare=prepare if any(case.prepare for case in cases.values()) else None,
    )


def main() -> None:
    steps = int(sys.argv[2])
    dist.init_process_group("gloo")
    at = ddprun.place()
    cases = {name: made(name) for name in sys.argv[1].split(",")}
    state = kept(cases, sys.argv[3:])
    where = "memory" if state.from_memory else "disk" if state.restored else "nothing"
    say("pid", os.getpid(), "rank", at.rank)
    for name, case in cases.items():
        say("began", state.step, "rank", at.rank, "of", at.world, "from", where, "with", name, digest(case), state.why)
    for step in range(state.step, steps):
        losses = {name: case.train(step).item().hex() for name, case in cases.items()}
        time.sleep(float(os.environ.get("PAUSE", 0)))
        for name, loss in losses.items():  # first: a rank that is killed now takes this step again
            say("step", step + 1, "rank", at.rank, "loss", name, loss)
        state.save(step + 1)
        if os.environ.get("DIGESTS"):
            say("after", step + 1, *(f"{name} {digest(case)}" for name, case in cases.items()))
        if ddprun.should_stop():
            state.flush()
            say("stopped at", step + 1)
            os._exit(143)
    for name, case in cases.items():
        say("digest", name, digest(case), "rank", at.rank)
    state.flush()
    state.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo outlive the group, and abort now and then
