"""Plain DDP over gloo, as the tutorials have it; see marks.py. It has a checkpoint
every few steps, or a snapshot at each step if KEEPS=snapshot. What is killed has so
many bytes of memory more as DIRTY says."""

import os
import time

began = time.monotonic()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from marks import ATTEMPT, EVERY, begins, mark, stepped  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

CHECKPOINT = os.environ["MARKS"] + ".checkpoint"

mark("main", began)
mark("import")
dist.init_process_group("gloo")
mark("init")
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
)
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
step = 0
snapshot = None
if os.environ.get("KEEPS") == "snapshot":
    import ddprun

    snapshot = ddprun.snapshot(model, optimizer)
    step = snapshot.step
elif os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
mark("build")
if ATTEMPT == "0":
    dirty = bytearray(int(float(os.environ.get("DIRTY", 0))))
    dirty[::4096] = b"x" * len(dirty[::4096])
begins(step)
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 256)).square().mean().backward()
    optimizer.step()
    step += 1
    if stepped(step):
        break
    if snapshot is not None:
        snapshot.save(step)
    elif step % EVERY == 0 and dist.get_rank() == 0:
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**parts, "step": step}, CHECKPOINT + ".new")
        os.replace(CHECKPOINT + ".new", CHECKPOINT)
    time.sleep(0.05)
dist.destroy_process_group()
