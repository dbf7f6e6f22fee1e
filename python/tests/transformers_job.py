"""A program with transformers.Trainer and ddprun.transformers.Snapshot. usage: STEPS"""

from __future__ import annotations

import hashlib
import os
import sys
import time

import torch
from transformers import Trainer, TrainingArguments

from ddprun.transformers import Snapshot


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> "dict[str, torch.Tensor]":
        time.sleep(float(os.environ.get("PAUSE", 0)))
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}


class Told(Snapshot):
    def on_train_begin(self, *args: object, **parts: object) -> None:
        super().on_train_begin(*args, **parts)  # type: ignore[arg-type]
        os.write(1, f"began {self.snapshot.step} pid {os.getpid()} rank {os.environ['RANK']}\n".encode())

    def on_step_end(self, args: object, state: object, *more: object, **parts: object) -> None:
        super().on_step_end(args, state, *more, **parts)  # type: ignore[arg-type]
        os.write(1, f"step {state.global_step}\n".encode())


torch.manual_seed(1)
trainer = Trainer(
    model=Model(),
    args=TrainingArguments(
        output_dir="out",
        max_steps=int(sys.argv[1]),
        per_device_train_batch_size=4,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    ),
    train_dataset=[{"x": torch.rand(8), "labels": torch.rand(1)} for _ in range(61)],
    callbacks=[Told()],
)
trainer.train()
if trainer.state.is_world_process_zero:
    total = b"".join(p.detach().numpy().tobytes() for p in trainer.model.parameters())
    os.write(1, f"ended at {trainer.state.global_step}, epoch {trainer.state.epoch:.3f}\n".encode())
    os.write(1, f"digest {hashlib.sha256(total).hexdigest()[:16]}\n".encode())
