"""What the benches of PyTorch's snapshots train: GPT-2's parameters with Adam, of
which nothing is computed but what a step needs of its memory."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch
from torch import nn


def gpt2(layers: int, dims: int = 768) -> nn.Module:
    model = nn.Module()
    model.wte, model.wpe = nn.Embedding(50257, dims), nn.Embedding(1024, dims)
    for i in range(layers):
        block = nn.ModuleDict(
            {
                "ln_1": nn.LayerNorm(dims),
                "attn": nn.Linear(dims, 3 * dims),
                "proj": nn.Linear(dims, dims),
                "ln_2": nn.LayerNorm(dims),
                "fc": nn.Linear(dims, 4 * dims),
                "out": nn.Linear(4 * dims, dims),
            }
        )
        model.add_module(f"h{i}", block)
    return model


def local(x: Any) -> torch.Tensor:
    """This rank's part of a sharded tensor."""
    return x.to_local() if hasattr(x, "to_local") else x


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-5)
        self.settled: "Callable[[], Any]" = lambda: None  # parameters may change after it
        for p in model.parameters():
            p.grad = torch.full_like(p, 1e-3)

    def step(self) -> None:
        """As a step whose gradients are there: first some reading, then Adam."""
        for p in self.model.parameters():
            local(p).detach().sum()
        self.settled()
        self.optimizer.step()

    def state(self) -> "dict[str, Any]":
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}


def timed(call: "Callable[[], Any]") -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
