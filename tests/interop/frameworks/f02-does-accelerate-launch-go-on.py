# The same by accelerate's own command, `accelerate launch`, which
# `python -m ddprun.torchrun` makes start ddprun.
# limit: 3600
from frameworks.scenario import *

title = version("accelerate")
# What the command finds in the place of an installed package.
os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
os.environ["PYTHONPATH"] += f":{HERE.parent.parent / 'python'}"


def line(nodes, node, port):
    """Each node on a machine of its own: accelerate refuses a port that another
    node on its machine has."""
    place = (["--num_machines=1"] if nodes == 1 else
             [f"--num_machines={nodes}", f"--machine_rank={node}",
              "--rdzv_backend=c10d", "--main_process_ip=one",
              f"--main_process_port={port}"])
    command = [sys.executable, "-m", "ddprun.torchrun", "accelerate", "launch",
               "--multi_gpu", "--mixed_precision=no", "--dynamo_backend=no",
               f"--num_processes={2 * nodes}", "--max_restarts=2", *place,
               JOBS / "accelerate_job.py"]
    if nodes == 1:
        return command
    return in_machine(MACHINES[node], ["env", "GLOO_SOCKET_IFNAME=eth0", *command])


MACHINES = "one", "two"
network(*MACHINES)
play_all(f"{title}, accelerate launch", line)
