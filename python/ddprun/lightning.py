"""ddprun.snapshot for Lightning: `Trainer(callbacks=[Snapshot(folder="ckpt")])`.

Model, optimizers, schedulers, scaler, loops and generators are kept after each
batch. Give the trainer `use_distributed_sampler=False` and the loader a
StatefulSampler, and the data goes on at the next sample, too.
"""

from __future__ import annotations

from typing import Any, Optional

from lightning.pytorch import Callback, LightningModule, Trainer

from ._job import beat, should_stop
from ._sampler import StatefulSampler
from ._snapshot import State, snapshot


class _Loops:
    """Where the trainer is: epoch, batch, step."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    def state_dict(self) -> "dict[str, Any]":
        return dict(self.trainer.fit_loop.state_dict())

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        self.trainer.fit_loop.load_state_dict(state)


class Snapshot(Callback):  # type: ignore[misc]
    """Arguments as ddprun.snapshot's. `sampler`: the loader's, if it has one."""

    def __init__(self, sampler: Optional[StatefulSampler] = None, **how: Any) -> None:
        self.sampler, self.how = sampler, how
        self.state: Optional[State] = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        extra: dict[str, Any] = {"loops": _Loops(trainer)}
        if self.sampler is not None:
            extra["sampler"] = self.sampler
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        model = trainer.strategy.model
        self.state = snapshot(model, *trainer.optimizers, *schedulers, scaler, extra=extra, **self.how)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert self.state is not None
        if self.sampler is not None:
            size = getattr(trainer.train_dataloader, "batch_size", None) or 1
            self.sampler.taken((batch_idx + 1) * size)
        self.state.save(trainer.global_step)
        beat(trainer.global_step)
        if should_stop():
            trainer.should_stop = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.state is not None:
            self.state.flush()
            self.state.close()
