"""Training as PyTorch's users write it: FSDP2, distributed checkpoints (DCP),
@record; goes on from the last whole checkpoint after a restart.

usage: sharded.py TOTAL_EPOCHS SAVE_EVERY
"""
import hashlib
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard

STEPS = 16
CHECKPOINTS = pathlib.Path("checkpoints")


class App(Stateful):
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.epochs_run = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer,
                "epochs_run": self.epochs_run}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer,
                       model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        self.epochs_run = state["epochs_run"]


def newest():
    """.metadata is written last, when every rank's part is there."""
    whole = [p.parent for p in CHECKPOINTS.glob("*/.metadata")]
    return max(whole, key=lambda p: int(p.name), default=None)


def run_epoch(app, epoch, rank):
    if "GATE_RANK" in os.environ:
        from frameworks.gate import begins
        begins(epoch)
    torch.manual_seed(1000 * epoch + rank)
    print(f"[GPU{rank}] Epoch {epoch} | Steps: {STEPS}", flush=True)
    for _ in range(STEPS):
        app.optimizer.zero_grad()
        app.model(torch.rand(32, 64)).square().mean().backward()
        app.optimizer.step()


@record
def main():
    total, save_every = int(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    app = App(model, torch.optim.AdamW(model.parameters(), 1e-3))
    found = newest()
    if found is not None:
        dcp.load({"app": app}, checkpoint_id=found)
        print(f"Resuming training from snapshot at Epoch {app.epochs_run}",
              flush=True)
    for epoch in range(app.epochs_run, total):
        run_epoch(app, epoch, rank)
        app.epochs_run = epoch + 1
        if epoch % save_every == 0:
            dcp.save({"app": app}, checkpoint_id=CHECKPOINTS / str(epoch))
            if rank == 0:
                print(f"Epoch {epoch} | Training snapshot saved", flush=True)
        time.sleep(float(os.environ.get("EPOCH_PAUSE", 0)))
    weights = [p.full_tensor().detach() for p in model.parameters()]
    if rank == 0:
        whole = b"".join(w.numpy().tobytes() for w in weights)
        print("fingerprint", hashlib.sha256(whole).hexdigest()[:16], flush=True)
    dist.destroy_process_group()


main()
# Threads of gloo that outlive the group abort Python while it takes itself down,
# now and then ("terminate called without an active exception").
sys.stdout.flush()
os._exit(0)
