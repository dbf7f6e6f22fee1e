"""torchft: one replica group of two, which goes on without the other and gives
its state to it when that one comes again."""
import os
import time
from datetime import timedelta

import torch
import torch.nn.functional as F
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

from frameworks import gate

GROUP = int(os.environ["REPLICA_GROUP_ID"])
torch.manual_seed(GROUP)  # the first state is the same by torchft
model = torch.nn.Linear(20, 1)
inner = torch.optim.Adam(model.parameters(), 1e-2)


def state():
    return {"model": model.state_dict(), "optimizer": inner.state_dict()}


def load(given):
    model.load_state_dict(given["model"])
    inner.load_state_dict(given["optimizer"])


manager = Manager(
    pg=ProcessGroupGloo(timeout=timedelta(seconds=20)), min_replica_size=1,
    load_state_dict=load, state_dict=state, replica_id=f"group_{GROUP}",
    timeout=timedelta(seconds=30))
ddp = DistributedDataParallel(manager, model)
optimizer = Optimizer(manager, inner)
gate.say("group", GROUP, "begins, pid", os.getpid())
while not os.path.exists("enough"):
    torch.manual_seed(1000 * manager.current_step() + GROUP)
    optimizer.zero_grad()
    F.mse_loss(ddp(torch.rand(8, 20)), torch.rand(8, 1)).backward()
    optimizer.step()
    gate.say("group", GROUP, "did step", manager.current_step(), "with",
             manager.num_participants(), "has", gate.digest(model.parameters()))
    time.sleep(0.1)
os._exit(0)
