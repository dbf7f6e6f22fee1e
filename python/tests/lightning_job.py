"""A Lightning program with ddprun.lightning.Snapshot, and other callbacks, whose
validation gets worse with time. usage: EPOCHS [FOLDER]; STRATEGY=fsdp2 shards."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import warnings
from typing import Any

import lightning.pytorch as pl
import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

import ddprun
from ddprun.lightning import Snapshot

warnings.simplefilter("ignore")
SHARDED = os.environ.get("STRATEGY") == "fsdp2"


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.2), torch.nn.Linear(16, 1))
        self.worse = 0

    def configure_model(self) -> None:
        if SHARDED:
            fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: "list[torch.Tensor]", i: int) -> torch.Tensor:
        time.sleep(float(os.environ.get("PAUSE", 0)))
        os.write(1, f"step {self.trainer.global_step + 1} rank {self.global_rank} pid {os.getpid()}\n".encode())
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def validation_step(self, batch: "list[torch.Tensor]", i: int) -> None:
        self.log("quality", 0.9 - 0.1 * self.worse)

    def on_validation_epoch_end(self) -> None:
        self.worse += not self.trainer.sanity_checking

    def on_save_checkpoint(self, checkpoint: "dict[str, Any]") -> None:
        checkpoint["worse"] = self.worse

    def on_load_checkpoint(self, checkpoint: "dict[str, Any]") -> None:
        self.worse = checkpoint.get("worse", 0)

    def configure_optimizers(self) -> object:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class Counts(pl.Callback):
    """Before Snapshot in the list. The numbers of its own events."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("batches", "validations"), 0)

    def on_train_batch_start(self, *_: Any) -> None:
        self.counts["batches"] += 1

    def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.counts["validations"] += not trainer.sanity_checking

    def state_dict(self) -> "dict[str, Any]":
        return {"counts": dict(self.counts)}

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        self.counts = state["counts"]


pl.seed_everything(1)
data = TensorDataset(torch.rand(200, 8), torch.rand(200, 1))
sampler = ddprun.StatefulSampler(data, seed=2)
counts = Counts()
stopping = pl.callbacks.EarlyStopping("quality", mode="max", patience=50)
best = pl.callbacks.ModelCheckpoint(os.environ.get("BEST", "best"), filename="{step}", monitor="quality", mode="max")
trainer = pl.Trainer(
    max_epochs=int(sys.argv[1]),
    accelerator="cpu",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    # By default all ranks of a node are tensor-parallel, and no data is.
    strategy=pl.strategies.ModelParallelStrategy(2, 1) if SHARDED else "ddp",
    callbacks=[counts, stopping, best, Snapshot(sampler, folder=sys.argv[2] if len(sys.argv) > 2 else None)],
    use_distributed_sampler=False,
    val_check_interval=5,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Model()
trainer.fit(model, DataLoader(data, batch_size=10, sampler=sampler), DataLoader(data, batch_size=200))
weights = [p.full_tensor() if SHARDED else p for p in model.parameters()]
if trainer.global_rank == 0:
    total = b"".join(p.detach().numpy().tobytes() for p in weights)
    known = {
        "best": [float(best.best_model_score), os.path.basename(best.best_model_path)],
        "stopping": [stopping.wait_count, float(stopping.best_score)],
        "worse": model.worse,
        "stepped": trainer.fit_loop.epoch_loop._batches_that_stepped,
        **counts.counts,
    }
    os.write(1, f"known {json.dumps(known)}\n".encode())
    os.write(1, f"digest {hashlib.sha256(total).hexdigest()[:16]}\n".encode())
