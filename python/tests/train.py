"""Training as a user would write it with ddprun.snapshot. Prints a digest of
everything that was trained, and each step that rank 0 takes.

usage: train.py STEPS [FOLDER]     DISK_EVERY, PAUSE, OVERLAP, WORKERS: variables
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import ddprun


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def digest(*parts: object) -> str:
    total = hashlib.sha256()

    def add(x: object) -> None:
        if isinstance(x, torch.Tensor):
            total.update(x.numpy().tobytes())
        elif isinstance(x, dict):
            for key, value in x.items():
                total.update(str(key).encode())
                add(value)
        elif isinstance(x, (list, tuple)):
            for value in x:
                add(value)
        else:
            total.update(repr(x).encode())

    for part in parts:
        add(part.state_dict())  # type: ignore[attr-defined]
    return total.hexdigest()[:16]


def main() -> None:
    steps = int(sys.argv[1])
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    net = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    data = TensorDataset(torch.rand(500, 16), torch.rand(500, 4), torch.arange(500))
    torch.manual_seed(100 + dist.get_rank())  # dropout differs by rank
    sampler = ddprun.StatefulSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=int(os.environ.get("WORKERS", 0)))
    state = ddprun.snapshot(
        net,
        optimizer,
        schedule,
        folder=sys.argv[2] if len(sys.argv) > 2 else None,
        disk_every=int(os.environ.get("DISK_EVERY", 0)),
        overlap=bool(os.environ.get("OVERLAP")),
        extra={"data": sampler, "twice": 0},
    )
    where = "memory" if state.from_memory else "disk" if state.restored else "nothing"
    rank, step = dist.get_rank(), state.step
    say("pid", os.getpid(), "rank", rank)
    if rank == 0:
        say("began", step, "of", dist.get_world_size(), "from", where)
    while step < steps:
        for x, y, number in sampler.batches(loader):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            ddprun.beat(step)
            state.extra["twice"] = 2 * step
            time.sleep(float(os.environ.get("PAUSE", 0)))
            state.save(step)
            say("step", step, "rank", rank, "samples", *number.tolist())
            if ddprun.should_stop():
                state.flush()
                if rank == 0:
                    say("asked to stop after", step)
                return
            if step == steps:
                break
    if rank == 0:
        say("digest", digest(model, optimizer, schedule, sampler))
    state.close()
    dist.destroy_process_group()


main()
