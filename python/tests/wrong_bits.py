"""Data-parallel training in which a bit of one rank changes in each of the first FLIPS
rounds. Prints which, and a digest of what was trained. Gradients are summed in the
order of the ranks: DistributedDataParallel sums in another one after a restart.

usage: wrong_bits.py STEPS FLIPS
"""

from __future__ import annotations

import hashlib
import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn

import ddprun

EVERY = 4


def flip(rng: random.Random, model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """A bit that no rounding takes away, and that does not make all numbers NaN."""
    name, p = rng.choice(list(model.named_parameters()))
    moment = rng.random() < 0.5
    t = optimizer.state[p]["momentum_buffer"] if moment else p.data
    bits = t.view(-1).view(torch.int32)
    bits[rng.randrange(bits.numel())] ^= 1 << rng.randint(14, 22)
    return f"{'moment' if moment else 'param'} {name}"


def average_gradients(model: nn.Module, world: int) -> None:
    for p in model.parameters():
        assert p.grad is not None
        all_ranks = [torch.empty_like(p.grad) for _ in range(world)]
        dist.all_gather(all_ranks, p.grad)
        p.grad.copy_(torch.stack(all_ranks).sum(0) / world)


def main() -> None:
    steps, flips = map(int, sys.argv[1:])
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    own = nn.Linear(1, 1)  # parameters that differ by rank from the start
    norm = nn.BatchNorm1d(2)  # statistics that begin to
    state = ddprun.snapshot(model, optimizer, own, norm, extra={"seen": torch.zeros(1)}, check_every=EVERY)
    turn = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    rng = random.Random(turn)
    wrong, after = rng.randrange(world), state.step + rng.randint(3, 2 * EVERY)
    if rank == 0:
        print("began", state.step, "from", "memory" if state.from_memory else "nothing", flush=True)
    for step in range(state.step + 1, steps + 1):
        torch.manual_seed(1000 * step + rank)
        x = torch.rand(8, 8)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x[:, :4]).backward()
        average_gradients(model, world)
        optimizer.step()
        own.weight.data += rank
        if step > 2 * EVERY:
            norm(x[:, :2])
        state.extra["seen"] += rank if step > 2 * EVERY else 0
        if turn < flips and step == after and rank == wrong:
            print("flip", turn, "rank", rank, "step", step, flip(rng, model, optimizer), flush=True)
        state.save(step)
    if rank == 0:
        total = hashlib.sha256()
        for p in model.parameters():
            total.update(p.detach().numpy().tobytes() + optimizer.state[p]["momentum_buffer"].numpy().tobytes())
        print("digest", total.hexdigest()[:16], flush=True)
    state.close()
    dist.destroy_process_group()


main()
