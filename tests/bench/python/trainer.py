"""The same with transformers.Trainer; see marks.py."""

import os
import time

began = time.monotonic()

import torch  # noqa: E402
from marks import EVERY, begins, mark, stepped  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402
from transformers.trainer_utils import get_last_checkpoint  # noqa: E402

FOLDER = os.environ["MARKS"] + ".checkpoints"
SNAPSHOTS = os.environ.get("KEEPS") == "snapshot"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
        )

    def forward(self, x, labels):
        time.sleep(0.05)
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}


class Marks(TrainerCallback):
    """After the one that restores the snapshot."""

    def on_train_begin(self, args, state, control, **parts):
        mark("build")
        begins(state.global_step)


class Steps(TrainerCallback):
    """Before the one that saves it."""

    def on_step_end(self, args, state, control, **parts):
        control.should_training_stop |= stepped(state.global_step)


mark("main", began)
mark("import")
arguments = TrainingArguments(
    output_dir=FOLDER,
    max_steps=1_000_000,
    per_device_train_batch_size=32,
    use_cpu=True,
    save_strategy="no" if SNAPSHOTS else "steps",
    save_steps=EVERY,
    report_to=[],
    disable_tqdm=True,
)
rank = arguments.process_index  # makes the process group
mark("init")
callbacks = [Steps(), Marks()]
if SNAPSHOTS:
    from ddprun.transformers import Snapshot

    callbacks.insert(1, Snapshot())
data = [{"x": torch.rand(256), "labels": torch.rand(10)} for _ in range(4096)]
trainer = Trainer(
    model=Model(), args=arguments, train_dataset=data, callbacks=callbacks
)
last = get_last_checkpoint(FOLDER) if os.path.isdir(FOLDER) else None
trainer.train(resume_from_checkpoint=None if SNAPSHOTS else last)
