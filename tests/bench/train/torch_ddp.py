"""The models of ddptrain in PyTorch: DistributedDataParallel over gloo, the same
samples, batch and optimizer; with `cuda` over NCCL on GPUs.
usage: torch_ddp.py MODEL FOLDER BATCH STEPS [cuda]"""
import gzip
import os
import sys
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

model, folder = sys.argv[1:3]
batch, steps = int(sys.argv[3]), int(sys.argv[4])
cuda = sys.argv[5:] == ["cuda"]
device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}" if cuda else "cpu")


class Cnn(nn.Module):
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


def images():
    x = torch.from_numpy(idx("train-images-idx3", 16).copy())
    y = torch.from_numpy(idx("train-labels-idx1", 8).copy()).long()
    return x.reshape(-1, 1, 28, 28), y


def line():
    x = torch.rand(100000, 1)
    return x, 2 * x + 0.1 * torch.randn(100000, 1)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(),
                         nn.Linear(128, 10), nn.LogSoftmax(dim=1))


def regression():
    return nn.Sequential(nn.Linear(1, 5), nn.Linear(5, 1))


# The net, its samples, its optimizer and rate.
net, samples, optimizer, rate = {
    "cnn": (Cnn, images, torch.optim.Adadelta, 0.01),
    "mlp": (mlp, images, torch.optim.Adam, 0.002),
    "regression": (regression, line, torch.optim.Adam, 0.01),
    "linear": (lambda: nn.Linear(20, 1),
               lambda: (torch.rand(2048, 20), torch.rand(2048, 1)),
               torch.optim.SGD, 0.001),
}[model]
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
x, y = samples()
classify = samples is images
loss = F.nll_loss if classify else F.mse_loss
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
net = nn.parallel.DistributedDataParallel(net().to(device))
optim = optimizer(net.parameters(), lr=rate)
warm = 5
for step in range(warm + steps):
    if step == warm:
        if cuda:
            torch.cuda.synchronize()
        begin = time.time()
    at = (step * world + rank) * batch % (len(x) - batch)
    pick = order[at:at + batch]
    inputs = x[pick].to(device)
    if classify:
        inputs = (inputs.float() - 72.94) / 90.02
    optim.zero_grad()
    loss(net(inputs), y[pick].to(device)).backward()
    optim.step()
if cuda:
    torch.cuda.synchronize()
dist.barrier()
if rank == 0:
    rate = steps * world * batch / (time.time() - begin)
    print(f"{rate:.0f} samples/s", flush=True)
