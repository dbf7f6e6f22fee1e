"""Plain DDP over gloo, as the tutorials have it. Writes down when each part of its
start was done: "ATTEMPT RANK WHAT SECONDS" into $MARKS. In attempt 0 rank 1 ends by
SIGKILL once the file $MARKS.kill is there; what starts after that is attempt 1."""

import os
import time

began = time.monotonic()

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# Not the restart count: on a node whose own workers did not fail torchrun's stays.
ATTEMPT = str(int(os.path.exists(os.environ["MARKS"] + ".kill")))
RANK = os.environ["RANK"]


def mark(what, at=None):
    line = f"{ATTEMPT} {RANK} {what} {at or time.monotonic():.6f}\n"
    fd = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)


mark("main", began)
mark("import")
dist.init_process_group("gloo")
mark("init")
model = torch.nn.Sequential(
    torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
)
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters())
mark("build")
for step in range(1_000_000):
    optimizer.zero_grad()
    model(torch.randn(32, 256)).square().mean().backward()
    optimizer.step()
    if step == 0:
        mark("step")
    if ATTEMPT != "0" and step >= 2:
        break
    # Rank 1 goes while rank 0 is in the next step.
    if ATTEMPT == "0" and os.path.exists(os.environ["MARKS"] + ".kill"):
        if RANK == "1":
            mark("kill")
            os.kill(os.getpid(), 9)
    if os.environ.get("DDP_PROGRESS_FILE"):
        with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
            file.write(str(step))
    time.sleep(0.05)
dist.destroy_process_group()
