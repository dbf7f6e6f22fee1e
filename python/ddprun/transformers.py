"""ddprun.snapshot for transformers.Trainer: `Trainer(callbacks=[Snapshot()])`.

Model, optimizer, scheduler, generators and the step are kept after each step. It
is the number of steps (`max_steps`, or what the epochs make) that ends training;
the data begins with a new epoch after a restart, since the Trainer has no way to
say where in it it is.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ._job import beat, should_stop
from ._snapshot import State, snapshot


class Snapshot(TrainerCallback):  # type: ignore[misc]
    """Arguments as ddprun.snapshot's."""

    def __init__(self, **how: Any) -> None:
        self.how = how
        self.snapshot: Optional[State] = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        self.snapshot = snapshot(parts["model"], parts["optimizer"], parts["lr_scheduler"], **self.how)
        state.global_step = max(state.global_step, self.snapshot.step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        assert self.snapshot is not None
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
