# init_method=tcp:// with ddprdzvd --c10d as the store, and no launcher at all.
from interop import *

port = daemon()
for rank in range(3):
    start(f"worker-{rank}", sys.executable, HERE / "collectives.py",
          RANK=str(rank), WORLD_SIZE="3", INIT=f"tcp://127.0.0.1:{port}",
          MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
          TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
for rank in range(3):
    ends_with(0, f"worker-{rank}")
    has(f"rank {rank} of 3 is fine", f"worker-{rank}")
done()
