"""ddprun.snapshot for transformers.Trainer: `Trainer(callbacks=[Snapshot()])`.

Model, optimizer, scheduler, generators, the step and the place in the data are kept
after each step. After a restart the Trainer counts its epochs from 0 again, and it
is the number of steps (`max_steps`, or what the epochs make) that ends training: its
loader is told the epoch that it is in, and leaves out the batches that were taken.

The first loss that is logged after a restart is too low: the Trainer divides by all
steps. With gradient accumulation, if the batches of an epoch are no multiple of it,
the last step of the epoch that is resumed is left out.
"""

from __future__ import annotations

import itertools
from typing import Any, Iterator, Optional

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._job import beat, place, should_stop
from ._snapshot import State, snapshot


class _Rest:
    """The batches of a loader: the first `skip` are left out, once, and epochs are
    counted from `epoch` on. What could set the epoch past it is hidden."""

    def __init__(self, inner: Any, epoch: int, skip: int) -> None:
        self.inner, self.epoch, self.skip = inner, epoch, skip

    def __iter__(self) -> "Iterator[Any]":
        skip, self.skip = self.skip, 0
        return itertools.islice(iter(self.inner), skip, None)

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name in ("sampler", "batch_sampler", "inner"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def set_epoch(self, epoch: int) -> None:
        within = getattr(self.inner, "batch_sampler", None)
        for part in (self.inner, getattr(self.inner, "sampler", None), getattr(within, "sampler", None)):
            if part is not None and hasattr(part, "set_epoch"):
                part.set_epoch(self.epoch + epoch)


class _Data:
    """Where the job is in the Trainer's loader."""

    def __init__(self, loader: Any, per_step: int) -> None:
        self.loader, self.per_step = loader, per_step
        try:
            self.length = len(loader)  # batches
        except TypeError:  # a stream: it has none
            self.length = 0
        self.first = 0  # the epoch that the Trainer's first one is
        self.epoch, self.batches = 0, 0

    def together(self) -> int:
        """Samples in a batch of all ranks."""
        size = getattr(self.loader, "total_batch_size", None)
        return int(size or (getattr(self.loader, "batch_size", None) or 1) * place().world)

    def state_dict(self) -> "dict[str, int]":
        return {"epoch": self.epoch, "samples": self.batches * self.together()}

    def load_state_dict(self, state: "dict[str, int]") -> None:
        self.epoch, self.batches = state["epoch"], state["samples"] // self.together()
        if self.length and self.batches >= self.length:
            self.epoch, self.batches = self.epoch + 1, 0
        self.first = self.epoch
        base = getattr(self.loader, "base_dataloader", self.loader)
        if getattr(base, "batch_sampler", None) is not None:
            rest = _Rest(base.batch_sampler, self.epoch, self.batches)
            object.__setattr__(base, "batch_sampler", rest)  # a DataLoader forbids it
        elif hasattr(self.loader, "skip_batches"):  # a stream: they are read, and left out
            self.loader.skip_batches = self.batches

    def begins(self, epoch: int) -> None:
        """The Trainer's `epoch` begins; the first one is under way, perhaps."""
        if epoch > 0:
            self.epoch, self.batches = self.first + epoch, 0
            if hasattr(self.loader, "skip_batches"):
                self.loader.skip_batches = 0

    def stepped(self) -> float:
        """One step more was taken; the epoch, as the Trainer tells it."""
        self.batches += self.per_step
        if self.length:
            self.batches = min(self.batches, self.length)
        return self.epoch + (self.batches / self.length if self.length else 0.0)


class Snapshot(TrainerCallback):  # type: ignore[misc]
    """Arguments as ddprun.snapshot's."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.snapshot: Optional[State] = None
        self.data = _Data(None, 1)
        self.epochs = 0  # that the Trainer has begun
        self.generator: Optional[torch.Tensor] = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self.epochs = 0
        self.data = _Data(parts.get("train_dataloader"), args.gradient_accumulation_steps)
        if self.how.get("extra") is None:
            self.how["extra"] = {}
        self.how["extra"]["trainer_data"] = self.data
        self.snapshot = snapshot(parts["model"], parts["optimizer"], parts["lr_scheduler"], **self.how)
        state.global_step = max(state.global_step, self.snapshot.step)
        # A loader that begins draws from the generator, and in an undisturbed run
        # it did not do so here.
        self.generator = torch.get_rng_state() if self.data.batches > 0 else None

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self.data.begins(self.epochs)
        self.epochs += 1

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        if self.generator is not None:
            torch.set_rng_state(self.generator)
            self.generator = None

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        assert self.snapshot is not None
        state.epoch = self.data.stepped()
        self.snapshot.save(state.global_step)
        beat(state.global_step)
        if should_stop():
            control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        if self.snapshot is not None:
            self.snapshot.flush()
            self.snapshot.close()
