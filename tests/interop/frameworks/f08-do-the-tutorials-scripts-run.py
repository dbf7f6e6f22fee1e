# The scripts of tutorials, as their people wrote them: do they run under
# ddprun, with a worker that is killed in the middle where they have a snapshot?
# Only what needs a GPU, a download or a package that is not here is replaced.
# INTEROP_TUTORIALS is the folder with the tutorials; none of them is here.
# limit: 1800
from frameworks.scenario import *

folder = os.environ.get("INTEROP_TUTORIALS", "")
if not folder:
    skip("INTEROP_TUTORIALS names no folder with tutorials")
texts = [path.read_text() for path in sorted(pathlib.Path(folder).iterdir())]


def script(*words):
    """The longest block of code with these words."""
    blocks = [block for text in texts
              for block in re.findall(r"^```+ *(?:python|py) *\n(.*?)^```+", text,
                                      re.M | re.S)]
    found = [b for b in blocks if all(word in b for word in words)]
    if not found:
        fail(f"no tutorial has a script with {words}")
    return max(found, key=len)


def for_cpus(text, *more):
    for pattern, new in (
            (r'"nccl"|\'nccl\'', '"gloo"'),
            (r"^ *torch\.cuda\.set_device\(.*\)\n", ""),
            (r", device_ids=\[[^]]*\](, output_device=\w+)?", ""),
            (r"\.to\((self\.)?(gpu_id|gpu_rank|local_rank|LOCAL_RANK)\)",
             '.to("cpu")'),
            (r'f"cuda:\{self\.gpu_id\}"', '"cpu"'),
            (r"^    cuda = True", "    cuda = False"),
            (r"pin_memory=True", "pin_memory=False"), *more):
        text = re.sub(pattern, new, text, flags=re.M)
    return text


def write(job, **files):
    place = WORK / job
    place.mkdir(exist_ok=True)
    for name, text in files.items():
        path = place / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    os.chdir(place)


def two_nodes(job, *more, nproc=(1, 1)):
    port = free_port()
    for node in 0, 1:
        start(f"{job}-{node}", DDPRUN, f"--nproc_per_node={nproc[node]}",
              "--nnodes=2", f"--node-rank={node}", "--rdzv_backend=c10d",
              f"--rdzv_endpoint=127.0.0.1:{port}", "--max_restarts=1", *more)


def killed(rank, *jobs):
    """Once there is a snapshot."""
    eventually(lambda: pathlib.Path("snapshot.pt").exists() and
               any("snapshot saved" in log(job) for job in jobs), WAIT_S,
               "no snapshot")
    os.kill(worker(rank), signal.SIGKILL)
    for job in jobs:
        ends_with(0, job, WAIT_S)
    text = "".join(map(log, jobs))
    if "Resuming training from snapshot at Epoch" not in text:
        fail(f"{jobs}: not resumed")
    return text


# Job 1: linear regression on two nodes of one GPU, WORLD_SIZE set by hand.
job = script("class torchMultiLR", "make_regression")
write("job1", lr_multigpu=for_cpus(
          job, (r'\{os\.environ\.get\("(\w+)"\)', r"{os.environ.get('\1')"),
          (r'"LOCAL_RANK"\),0\}', "'LOCAL_RANK'),0}"),
          (r"epoch = 100", "epoch = 2"), (r"n_samples=100000", "n_samples=4000")),
      utils__dataset=script("class MyDataset(Dataset)"),
      sklearn__datasets="import numpy\n\n\ndef make_regression(n_samples, "
      "n_features, n_targets, random_state):\n    x = numpy.random.default_rng("
      "random_state).random((n_samples, n_features))\n    return x, 3 * x[:, 0]\n")
two_nodes("job1", "lr_multigpu.py")
for node in 0, 1:
    ends_with(0, f"job1-{node}", WAIT_S)
    has("World Size:- 2", f"job1-{node}")
    has("Current Iteration:-1, on Running on Rank:-0", f"job1-{node}")

# Job 2: the DDP tutorial, from its snapshot after a kill.
ddp = for_cpus(script("class Trainer", "_load_snapshot", "argparse"))
data = script("class MyTrainDataset(Dataset)")
write("job2", multi_gpu=ddp, datautils=data)
start("job2", DDPRUN, "--standalone", "--nproc_per_node=2", "--max_restarts=1",
      "multi_gpu.py", "100", "10")
text = killed(1, "job2")
same(len(re.findall(r"\[GPU[01]\] Epoch 99 ", text)), 2, "last epochs")

# Job 3: the same on two nodes, of 2 and 1 workers.
write("job3", multi_gpu=ddp, datautils=data)
two_nodes("job3", "multi_gpu.py", "100", "10", nproc=(2, 1))
text = killed(2, "job3-0", "job3-1")
same(len(re.findall(r"\[GPU[01]\] Epoch 99 ", text)), 3, "last epochs")

# Job 6: a classifier of digits, put together from the tutorial's pieces.
pieces = [script("class Net(nn.Module)"), script("def get_mnist_loader")]
main = script("os.getenv('LOCAL_RANK', 0)", "DDP(model, device_ids")
write("job6", mnist=for_cpus("\n".join(
          ["import os, torch", "import torch.nn as nn",
           "import torch.nn.functional as F", "import torch.distributed as dist",
           "from torch.nn.parallel import DistributedDataParallel as DDP",
           "from torchvision import datasets, transforms", *pieces,
           main.replace("...\n", "", 1).replace("    ...\n", ""),
           "    loader = get_mnist_loader(train=True, batch_size=64)",
           "    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.01)",
           "    train(model, optimizer, loader, device)",
           "    print('trained', dist.get_rank(), flush=True)",
           "    dist.destroy_process_group()"])),
      torchvision__transforms="def ToTensor(): pass\ndef Normalize(*a): pass\n"
      "def Compose(all): pass\n",
      torchvision__datasets="import torch\ndef MNIST(*a, **k):\n    return "
      "[(torch.rand(1, 28, 28), i % 10) for i in range(640)]\n")
two_nodes("job6", "mnist.py", nproc=(2, 2))
for node in 0, 1:
    ends_with(0, f"job6-{node}", WAIT_S)
    same(log(f"job6-{node}").count("trained"), 2, "workers that trained")

# Job 8: SageMaker's hosts, of which ddprun knows from its variables.
write("job8", train=script('os.environ["SM_HOSTS"]', "dist.init_process_group"))
os.chdir(WORK)
network("algo-1", "algo-2")
for host in "algo-1", "algo-2":
    start(f"job8-{host}", DDPRUN, "job8/train.py", on=host,
          SM_HOSTS='["algo-1", "algo-2"]', SM_CURRENT_HOST=host)
for rank, host in enumerate(("algo-1", "algo-2")):
    ends_with(0, f"job8-{host}", WAIT_S)
    has(f"world size 2 and host rank {rank}", f"job8-{host}")
    has("Outside: input size torch.Size([20, 5])", f"job8-{host}")
measured("jobs 1, 2, 3, 6 and 8 run; 2 and 3 go on from their snapshot")
done()
