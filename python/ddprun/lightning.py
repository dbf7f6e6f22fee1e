"""ddprun.snapshot for Lightning: `Trainer(callbacks=[Snapshot(folder="ckpt")])`.

Model, optimizers, schedulers, scaler, loops, generators, and what the other callbacks,
the module and the datamodule give to a checkpoint are kept before each batch that
follows a step. Give the trainer `use_distributed_sampler=False` and the loader a
StatefulSampler, and the data goes on at the next sample, too.

If the job is to stop, the last step goes to the disk, and `fit` does not return:
SystemExit, with the status of SIGTERM. Lightning's own handler of that signal, which
runs a collective in it, is taken out while `fit` runs; the program's own one stays.
"""

from __future__ import annotations

import signal
from typing import Any, Iterator, Optional

from lightning.pytorch import Callback, LightningModule, Trainer

from ._framework import Known, Start, keep_too, leave
from ._job import beat, should_stop, uncover
from ._sampler import StatefulSampler
from ._snapshot import State, snapshot


class _Loops:
    """Where the trainer is: epoch, batch, step."""

    def __init__(self, trainer: Trainer) -> None:
        self.fit_loop = trainer.fit_loop
        self.loaded: dict[str, Any] = {}

    def state_dict(self) -> "dict[str, Any]":
        return dict(self.fit_loop.state_dict())

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        """Saved before a batch: that it is the last one of its epoch would end the
        epoch now."""
        self.loaded = state
        batches = "epoch_loop.batch_progress"
        self.fit_loop.load_state_dict({**state, batches: {**state[batches], "is_last_batch": False}})

    def again(self) -> None:
        """A restart counts a validation, and the logs, once more."""
        self.fit_loop.load_state_dict(self.loaded)
        self.fit_loop.epoch_loop.val_loop.restarting = False


class _Others:
    """What the other callbacks, the module and the datamodule give to a checkpoint:
    their state, and what their hooks put into it."""

    def __init__(self, trainer: Any, module: LightningModule) -> None:
        self.trainer, self.module = trainer, module

    def _with_state(self) -> "Iterator[tuple[str, Any]]":
        for callback in self.trainer.callbacks:
            yield f"the callback {callback.state_key}", callback
        if self.trainer.datamodule is not None:
            yield "the datamodule", self.trainer.datamodule

    def _hooks(self, name: str) -> "Iterator[Any]":
        """Those that somebody has written."""
        for callback in self.trainer.callbacks:
            if getattr(type(callback), name) is not getattr(Callback, name):
                yield lambda checkpoint, hook=getattr(callback, name): hook(self.trainer, self.module, checkpoint)
        if getattr(type(self.module), name) is not getattr(LightningModule, name):
            yield getattr(self.module, name)

    def _checkpoint(self) -> "dict[str, Any]":
        """What a hook expects of one."""
        return {
            "epoch": self.trainer.current_epoch,
            "global_step": self.trainer.global_step,
            "state_dict": self.module.state_dict(),
            "optimizer_states": [optimizer.state_dict() for optimizer in self.trainer.optimizers],
            "callbacks": {callback.state_key: callback.state_dict() for callback in self.trainer.callbacks},
        }

    def get(self) -> "dict[str, Any]":
        known = {name: part.state_dict() for name, part in self._with_state()}
        hooks = list(self._hooks("on_save_checkpoint"))
        if hooks:
            before = self._checkpoint()
            checkpoint = dict(before)
            for hook in hooks:
                hook(checkpoint)
            known["what hooks put into a checkpoint"] = {
                key: value for key, value in checkpoint.items() if value is not before.get(key)
            }
        return {name: state for name, state in known.items() if state}

    def put_states(self, known: "dict[str, Any]") -> None:
        for name, part in self._with_state():
            if name in known:
                part.load_state_dict(known[name])

    def put(self, known: "dict[str, Any]") -> None:
        self.put_states(known)
        hooks = list(self._hooks("on_load_checkpoint"))
        if hooks:
            checkpoint = {**self._checkpoint(), **known.get("what hooks put into a checkpoint", {})}
            for hook in hooks:
                hook(checkpoint)


class Snapshot(Callback):  # type: ignore[misc]
    """Arguments as ddprun.snapshot's. `sampler`: the loader's, if it has one."""

    def __init__(self, sampler: Optional[StatefulSampler] = None, **how: Any) -> None:
        self.sampler, self.how = sampler, how
        self.state: Optional[State] = None

    def setup(self, trainer: Any, pl_module: LightningModule, stage: str) -> None:
        """Before the others: what they do at a hook is not in what is saved there."""
        trainer.callbacks = [self, *(callback for callback in trainer.callbacks if callback is not self)]

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.handler = signal.getsignal(signal.SIGTERM)
        loops, others = _Loops(trainer), _Others(trainer, pl_module)
        self.known = Known(others.get, others.put)
        keep_too(self.how, "extra", loops=loops, lightning=self.known)
        if self.sampler is not None:
            keep_too(self.how, "extra", sampler=self.sampler)
        schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        model = trainer.strategy.model
        self.state = snapshot(model, *trainer.optimizers, *schedulers, scaler, **self.how)
        self.known.put = others.put_states
        self.start = Start(self.state, loops.again, self.known.again)
        if self.sampler is not None:
            self.sampler.counted_by_others()

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        uncover(self.handler)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        uncover(self.handler)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        assert self.state is not None
        self.start.step_begins()
        self._save(trainer)
        if should_stop():
            leave(self.state)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.sampler is not None:
            size = getattr(trainer.train_dataloader, "batch_size", None) or 1
            self.sampler.taken((batch_idx + 1) * size)
        beat(trainer.global_step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        """Not between two batches of one step."""
        assert self.state is not None
        if trainer.global_step != self.state.step:
            self.known.look()
            self.state.save(trainer.global_step)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.state is not None:
            self.state.flush()
            self.state.close()
