"""Lightning: Trainer with DDP, ModelCheckpoint, fit(ckpt_path=...)."""
import os
import pathlib
import warnings

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from frameworks import gate

warnings.simplefilter("ignore")


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(20, 1)

    def training_step(self, batch, i):
        return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

    def on_train_epoch_start(self):
        gate.begins(self.current_epoch)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), 1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class Told(pl.callbacks.ModelCheckpoint):
    def _save_checkpoint(self, trainer, path):
        super()._save_checkpoint(trainer, path)
        gate.saved(trainer.current_epoch)


pl.seed_everything(0)
data = TensorDataset(torch.rand(192, 20), torch.rand(192, 1))
model = Model()
found = max(pathlib.Path("ckpt").glob("epoch=*.ckpt"), default=None,
            key=lambda path: int(path.stem.split("=")[1]))
gate.resumed(0 if found is None else int(found.stem.split("=")[1]) + 1)
trainer = pl.Trainer(
    max_epochs=gate.EPOCHS, accelerator="cpu", strategy="ddp",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), logger=False,
    enable_progress_bar=False, enable_model_summary=False,
    callbacks=[Told(dirpath="ckpt", filename="{epoch}", save_top_k=-1,
                    save_on_train_epoch_end=True)])
trainer.fit(model, DataLoader(data, 8, shuffle=True), ckpt_path=found)
gate.ended(model.parameters())
gate.leave()
