"""The cnn of ddptrain in PyTorch: DistributedDataParallel over gloo, the same
images, batch and optimizer; with `cuda` over NCCL on GPUs.
usage: torch_ddp.py FOLDER BATCH STEPS [cuda]"""
import gzip
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

folder, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cuda = sys.argv[4:] == ["cuda"]
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 32, 3), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64)
        self.fc1, self.fc2 = nn.Linear(1600, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


def idx(name, skip):
    with gzip.open(f"{folder}/{name}-ubyte.gz") as f:
        return numpy.frombuffer(f.read(), numpy.uint8, offset=skip)


torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x = torch.from_numpy(idx("train-images-idx3", 16).copy()).reshape(-1, 1, 28, 28)
y = torch.from_numpy(idx("train-labels-idx1", 8).copy()).long()
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
net = nn.parallel.DistributedDataParallel(Net().to(device))
optim = torch.optim.Adadelta(net.parameters(), lr=0.01)
warm = 5
for step in range(warm + steps):
    if step == warm:
        if cuda:
            torch.cuda.synchronize()
        begin = time.time()
    at = (step * world + rank) * batch % (len(x) - batch)
    pick = order[at:at + batch]
    inputs = (x[pick].to(device).float() - 72.94) / 90.02
    optim.zero_grad()
    F.nll_loss(net(inputs), y[pick].to(device)).backward()
    optim.step()
if cuda:
    torch.cuda.synchronize()
dist.barrier()
if rank == 0:
    rate = steps * world * batch / (time.time() - begin)
    print(f"{rate:.0f} samples/s", flush=True)
