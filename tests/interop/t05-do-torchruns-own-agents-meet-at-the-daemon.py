# Two real torchrun agents, unmodified, meet at ddprdzvd --c10d, while a job of
# ddprun's own uses the same port: does each get through its restart?
# limit: 120
from interop import *

# From 2.6 on the agents serve their workers a store of their own, the same one
# after a restart, in which gloo finds its dead peers and hangs, whoever serves
# the rendezvous; with this, rank 0 serves it.
os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
port = daemon()
for name in "a", "b":
    start(f"torchrun-{name}", *torchrun(
        "--nnodes=2", "--nproc_per_node=2", "--max_restarts=1",
        "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}",
        "--rdzv_id=theirs", "--monitor_interval=0.2"),
        HERE / "collectives.py", "2")
start("ddprun", DDPRUN, "--nproc_per_node=2", "--max_restarts=1",
      f"--rdzv_endpoint=127.0.0.1:{port}", HERE / "collectives.py", "1")
ends_with(0, "ddprun")
for name in "a", "b":
    ends_with(0, f"torchrun-{name}", 90)
lines = log("torchrun-a") + log("torchrun-b")
for rank in range(4):
    if f"rank {rank} of 4 is fine, attempt" not in lines:
        fail(f"rank {rank} of torchrun's did not come through")
done()
