"""A Lightning program with ddprun.lightning.Snapshot. usage: EPOCHS"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

import ddprun
from ddprun.lightning import Snapshot

warnings.simplefilter("ignore")


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))

    def training_step(self, batch: "list[torch.Tensor]", i: int) -> torch.Tensor:
        time.sleep(float(os.environ.get("PAUSE", 0)))
        os.write(1, f"step {self.trainer.global_step + 1} rank {self.global_rank} pid {os.getpid()}\n".encode())
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> object:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


pl.seed_everything(1)
data = TensorDataset(torch.rand(200, 8), torch.rand(200, 1))
sampler = ddprun.StatefulSampler(data, seed=2)
trainer = pl.Trainer(
    max_epochs=int(sys.argv[1]),
    accelerator="cpu",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    strategy="ddp",
    callbacks=[Snapshot(sampler)],
    use_distributed_sampler=False,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Model()
trainer.fit(model, DataLoader(data, batch_size=10, sampler=sampler))
if trainer.global_rank == 0:
    total = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    os.write(1, f"digest {hashlib.sha256(total).hexdigest()[:16]}\n".encode())
