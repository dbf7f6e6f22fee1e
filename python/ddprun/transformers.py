"""ddprun.snapshot for transformers.Trainer: `Trainer(callbacks=[Snapshot()])`.

Model, optimizer, scheduler, generators, the step, the place in the data, the Trainer's
state (best metric, log history, losses not logged yet) and that of the other callbacks
(an ExportableState, or state_dict and load_state_dict) are kept before each step.
After a restart the Trainer counts its epochs from 0 again, and it is the number of
steps (`max_steps`, or what the epochs make) that ends training: its loader is told the
epoch that it is in, and leaves out the batches that were taken.

If the job is to stop, the last step goes to the disk, and `train` does not return:
SystemExit, with the status of SIGTERM, so that nothing takes the model for the trained
one.

The speeds that are logged at the end are too high after a restart: the Trainer divides
all steps by the time since then. With gradient accumulation, if the batches of an epoch
are no multiple of it, the last step of the epoch that is resumed is left out.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import Any, Iterator, Optional

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from ._framework import Known, Start, keep_too, leave, of_rank_0
from ._job import beat, place, should_stop
from ._parts import has_state
from ._snapshot import State, snapshot
from ._tree import bytes_of
from ._structure import PAGE


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


def _trainer() -> Any:
    """The one that calls: it gives itself to no callback."""
    frame: Any = sys._getframe()
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), Trainer):
            return frame.f_locals["self"]
        frame = frame.f_back
    raise RuntimeError("ddprun.transformers.Snapshot is a callback of a transformers.Trainer")


class _Losses:
    """What this rank has added up since the last log."""

    NAMES = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged", "current_flos")

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def state_dict(self) -> "dict[str, Any]":
        return {name: getattr(self.trainer, name) for name in self.NAMES if hasattr(self.trainer, name)}

    def load_state_dict(self, state: "dict[str, Any]") -> None:
        for name, value in state.items():
            if isinstance(value, torch.Tensor):  # the Trainer's loop holds this one
                getattr(self.trainer, name).copy_(value)
            else:
                setattr(self.trainer, name, value)


def _plain(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else str(x)


class _Log:
    """The log history, rank 0's: its entries have times. It grows, so only what is
    new is written and sent."""

    def __init__(self, state: TrainerState) -> None:
        self.state = state
        self.text, self.entries = b"", 0

    def look(self) -> None:
        """As it is now. Collective, before each save."""
        history = self.state.log_history
        goes_on = self.entries <= len(history)  # or somebody has cut it
        new = history[self.entries :] if goes_on else history
        lines = "".join(json.dumps(entry, default=_plain) + "\n" for entry in new)
        self.entries = len(history)
        told = of_rank_0(("+" if goes_on else "=").encode() + lines.encode())
        self.text = (self.text if told[:1] == b"+" else b"") + told[1:]

    def state_dict(self) -> "dict[str, torch.Tensor]":
        whole = self.text.ljust(-(-(len(self.text) + 1) // PAGE) * PAGE)
        return {"lines": torch.frombuffer(bytearray(whole), dtype=torch.uint8)}

    def load_state_dict(self, state: "dict[str, torch.Tensor]") -> None:
        self.text = bytes_of(state["lines"]).rstrip(b" ")
        self.again()

    def again(self) -> None:
        self.state.log_history[:] = [json.loads(line) for line in self.text.splitlines()]
        self.entries = len(self.state.log_history)


class _Others:
    """The Trainer's state and that of its callbacks."""

    # What its arguments say, and what has its own place in a snapshot.
    NOT_KEPT = (
        "global_step max_steps logging_steps eval_steps save_steps train_batch_size num_train_epochs log_history "
        "is_local_process_zero is_world_process_zero is_hyper_param_search trial_name trial_params stateful_callbacks"
    ).split()

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def _callbacks(self) -> "Iterator[tuple[str, Any]]":
        seen: dict[str, int] = {}
        for callback in self.trainer.callback_handler.callbacks:
            name = type(callback).__name__
            seen[name] = seen.get(name, 0) + 1
            yield f"the callback {name} {seen[name]}", callback

    def get(self) -> "dict[str, Any]":
        known = {"the Trainer's state": {k: v for k, v in vars(self.trainer.state).items() if k not in self.NOT_KEPT}}
        for name, callback in self._callbacks():
            if isinstance(callback, ExportableState):
                known[name] = callback.state()["attributes"]
            elif has_state(callback):
                known[name] = callback.state_dict()
        return known

    def put(self, known: "dict[str, Any]") -> None:
        vars(self.trainer.state).update(known.get("the Trainer's state", {}))
        for name, callback in self._callbacks():
            if name in known and isinstance(callback, ExportableState):
                vars(callback).update(known[name])
            elif name in known:
                callback.load_state_dict(known[name])


class Snapshot(TrainerCallback):  # type: ignore[misc]
    """Arguments as ddprun.snapshot's."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.snapshot: Optional[State] = None
        self.data = _Data(None, 1)
        self.epochs = 0  # that the Trainer has begun

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self.epochs = 0
        trainer = _trainer()
        # What the others do at an event is not in what is saved there.
        handler = trainer.callback_handler
        handler.callbacks = [self, *(callback for callback in handler.callbacks if callback is not self)]
        others = _Others(trainer)
        self.data = _Data(parts.get("train_dataloader"), args.gradient_accumulation_steps)
        self.known, self.log = Known(others.get, others.put), _Log(state)
        keep_too(self.how, "extra", trainer_data=self.data, trainer=self.known, trainer_log=self.log)
        keep_too(self.how, "per_rank", trainer=_Losses(trainer))
        self.snapshot = snapshot(parts["model"], parts["optimizer"], parts["lr_scheduler"], **self.how)
        state.global_step = max(state.global_step, self.snapshot.step)
        self.start = Start(self.snapshot, self.known.again, self.log.again)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self.data.begins(self.epochs)
        self.epochs += 1

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        assert self.snapshot is not None
        self.start.step_begins()
        self._save(state.global_step)
        if should_stop():
            leave(self.snapshot)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        state.epoch = self.data.stepped()
        beat(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        if self.snapshot is not None:
            self._save(state.global_step)
            self.snapshot.flush()
            self.snapshot.close()

    def _save(self, step: int) -> None:
        assert self.snapshot is not None
        if step != self.snapshot.step:
            self.known.look()
            self.log.look()
            self.snapshot.save(step)
