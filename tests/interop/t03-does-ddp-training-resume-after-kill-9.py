# The training script that PyTorch's users write, unchanged: does it go on from
# its snapshot after kill -9 of a worker?
# limit: 600
from interop import *

start("job", DDPRUN, "--standalone", "--nproc_per_node=2", "--max_restarts=1",
      HERE / "train.py", "12", "3", GATE_RANK="1", GATE_EPOCH="5")
wait_log("Epoch 3 | Training snapshot saved", "job")
if STANDBYS:
    wait_standbys(1, 2)
os.kill(worker(1), signal.SIGKILL)
pathlib.Path("go").touch()
ends_with(0, "job")
text = log("job")
for line in ("signal 9 (SIGKILL); stopping the others",
             "Resuming training from snapshot at Epoch",
             "[GPU0] Epoch 11 | Batchsize: 32 | Steps: 32",
             "[GPU1] Epoch 11 | Batchsize: 32 | Steps: 32"):
    has(line, "job")
same("2 of 2 workers started from a standby" in text, STANDBYS, "standbys")
same(text.count("Resuming"), 2, "workers that resumed")
same(text.count("[GPU0] Epoch 0 "), 1, "first epochs")
done()
