# A worker and a node of a job with FSDP2, distributed checkpoints and @record are
# killed: does it go on from the last whole checkpoint, to the result of an
# undisturbed run?
# limit: 3600
from frameworks.scenario import *

if torch_version() < (2, 6):
    skip("FSDP2 on CPUs needs PyTorch 2.6")
play_all(f"FSDP2, DCP and @record, {version('torch')}",
         by_ddprun(HERE / "sharded.py", 6, 1),
         saved=r"^Epoch 2 \| Training snapshot saved$",
         resumed="^Resuming training from snapshot at Epoch 3$")
