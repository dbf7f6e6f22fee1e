"""DeepSpeed: ZeRO stage 1 on CPUs, save_checkpoint(), load_checkpoint()."""
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch

from frameworks import gate

deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Linear(32, 1))
engine, _, _, _ = deepspeed.initialize(model=model, config={
    "train_micro_batch_size_per_gpu": 8,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
})
_, state = engine.load_checkpoint("ckpt")
begin = 0 if state is None else state["epochs_run"]
gate.resumed(begin)
for epoch in range(begin, gate.EPOCHS):
    gate.begins(epoch)
    torch.manual_seed(1000 * epoch + gate.RANK)
    for _ in range(8):
        loss = torch.nn.functional.mse_loss(engine(torch.rand(8, 20)),
                                            torch.rand(8, 1))
        engine.backward(loss)
        engine.step()
    engine.save_checkpoint("ckpt", client_state={"epochs_run": epoch + 1})
    gate.saved(epoch)
gate.ended(model.parameters())
gate.leave()
