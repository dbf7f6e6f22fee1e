"""transformers.Trainer: checkpoints each epoch, resume_from_checkpoint."""
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from frameworks import gate


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(20, 1)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.net(x), labels)}


class Told(TrainerCallback):
    def on_train_begin(self, args, state, control, **more):
        gate.resumed(round(state.epoch or 0))

    def on_epoch_begin(self, args, state, control, **more):
        gate.begins(round(state.epoch))

    def on_save(self, args, state, control, **more):
        gate.saved(round(state.epoch) - 1)


torch.manual_seed(0)
model = Model()
trainer = Trainer(
    model=model, callbacks=[Told()],
    train_dataset=[{"x": torch.rand(20), "labels": torch.rand(1)}
                   for _ in range(192)],
    args=TrainingArguments(
        output_dir="out", num_train_epochs=gate.EPOCHS, use_cpu=True,
        per_device_train_batch_size=8, learning_rate=1e-2, report_to=[],
        save_strategy="epoch", disable_tqdm=True, save_total_limit=2))
try:
    found = get_last_checkpoint("out")
except FileNotFoundError:
    found = None
trainer.train(resume_from_checkpoint=found)
gate.ended(model.parameters())
gate.leave()
