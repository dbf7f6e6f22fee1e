# PyTorch's own file timers (torch.distributed.elastic.timer): is a worker ended
# that overruns one, and does the job go on in the next round? Is one left alone
# that is done in time?
from interop import *

pathlib.Path("job.py").write_text('''
import os
import time

import torch.distributed.elastic.timer as timer

timer.configure(timer.FileTimerClient(os.environ["TORCHELASTIC_TIMER_FILE"]))
attempt, rank = (int(os.environ[n]) for n in ("TORCHELASTIC_RESTART_COUNT", "RANK"))
for i in range(20):
    with timer.expires(after=60, scope=f"step {i}"):
        pass
if attempt == 0:
    limit = 0.5 if rank == 1 else 600
    with timer.expires(after=limit, scope=f"step of rank {rank}"):
        time.sleep(600)
print(f"rank {rank} is done in attempt {attempt}", flush=True)
''')
start("job", DDPRUN, "--nproc_per_node=2", "--max_restarts=1", "job.py",
      TORCHELASTIC_ENABLE_FILE_TIMER="1")
ends_with(0, "job")
has("the timer 'step of rank 1' of the worker with local rank 1 has run out: "
    "sending SIGKILL", "job")
same(log("job").count("has run out"), 1, "timers that have run out")
for rank in 0, 1:
    has(f"rank {rank} is done in attempt 1", "job")
done()
