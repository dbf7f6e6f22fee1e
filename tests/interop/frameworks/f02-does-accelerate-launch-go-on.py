# The same by accelerate's own command, `accelerate launch`, which
# `python -m ddprun.torchrun` makes start ddprun.
# limit: 900
from frameworks.scenario import *

title = version("accelerate")
# What the command finds in the place of an installed package.
os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
os.environ["PYTHONPATH"] += f":{HERE.parent.parent / 'python'}"


def line(nodes, node, port):
    return [sys.executable, "-m", "ddprun.torchrun", "accelerate", "launch",
            "--multi_gpu", "--mixed_precision=no", "--dynamo_backend=no",
            "--num_machines=1", "--num_processes=2", "--max_restarts=2",
            JOBS / "accelerate_job.py"]


# Not as two nodes: accelerate refuses a port that another node on this machine
# has.
play_all(f"{title}, accelerate launch", line, places={"1 x 2": 1})
