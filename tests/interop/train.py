"""Training as PyTorch's users write it: data-parallel, a snapshot every few
epochs, resumed from after a restart.

usage: train.py TOTAL_EPOCHS SAVE_EVERY [--batch_size N]
"""
import argparse
import hashlib
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SNAPSHOT = "snapshot.pt"


class Trainer:
    def __init__(self, model, data, optimizer, save_every):
        self.local, self.rank = int(os.environ["LOCAL_RANK"]), dist.get_rank()
        self.data, self.optimizer = data, optimizer
        self.save_every, self.epochs_run = save_every, 0
        if os.path.exists(SNAPSHOT):
            snapshot = torch.load(SNAPSHOT, map_location="cpu")
            model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.epochs_run}")
        self.model = DistributedDataParallel(model)

    def epoch(self, epoch):
        if "GATE_RANK" in os.environ:
            from frameworks.gate import begins
            begins(epoch)
        size = len(next(iter(self.data))[0])
        print(f"[GPU{self.rank}] Epoch {epoch} | Batchsize: {size} | "
              f"Steps: {len(self.data)}")
        self.data.sampler.set_epoch(epoch)
        for source, targets in self.data:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(source), targets)
            loss.backward()
            self.optimizer.step()

    def save(self, epoch):
        torch.save({"MODEL_STATE": self.model.module.state_dict(),
                    "EPOCHS_RUN": epoch + 1}, SNAPSHOT + ".new")
        os.replace(SNAPSHOT + ".new", SNAPSHOT)
        print(f"Epoch {epoch} | Training snapshot saved at {SNAPSHOT}")

    def train(self, total):
        for epoch in range(self.epochs_run, total):
            self.epoch(epoch)
            if self.rank == 0 and epoch % self.save_every == 0:
                self.save(epoch)
            time.sleep(float(os.environ.get("EPOCH_PAUSE", 0)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(2048, 20), torch.rand(2048, 1))
    model = torch.nn.Linear(20, 1)
    loader = DataLoader(data, args.batch_size, shuffle=False,
                        sampler=DistributedSampler(data))
    trainer = Trainer(model, loader, torch.optim.SGD(model.parameters(), 1e-3),
                      args.save_every)
    trainer.train(args.total_epochs)
    first = trainer.model.module.weight.detach().clone()
    dist.broadcast(first, 0)
    assert torch.equal(first, trainer.model.module.weight), "ranks differ"
    if trainer.rank == 0:
        print("fingerprint", hashlib.sha256(first.numpy()).hexdigest()[:16])
    dist.barrier()
    dist.destroy_process_group()


main()
# Threads of gloo that outlive the group abort Python while it takes itself down,
# now and then ("terminate called without an active exception").
sys.stdout.flush()
os._exit(0)
