"""accelerate: prepare(), save_state(), load_state()."""
import os

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

from frameworks import gate

# The other samplers' generators are in no checkpoint of accelerate's.
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(
    use_seedable_sampler=True))
set_seed(0)
data = TensorDataset(torch.rand(192, 20), torch.rand(192, 1))
model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Dropout(0.1),
                            torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 16)
model, optimizer, loader, schedule = accelerator.prepare(
    model, optimizer, DataLoader(data, 8, shuffle=True), schedule)
begin = 0
if os.path.exists("newest"):
    begin = int(open("newest").read())
    accelerator.load_state(f"ckpt-{begin}")
gate.resumed(begin)
for epoch in range(begin, gate.EPOCHS):
    gate.begins(epoch)
    loader.set_epoch(epoch)
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    accelerator.save_state(f"ckpt-{epoch + 1}")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        with open("newest.new", "w") as file:
            file.write(str(epoch + 1))
        os.replace("newest.new", "newest")
        gate.saved(epoch)
    accelerator.wait_for_everyone()
gate.ended(model.parameters())
gate.leave()
