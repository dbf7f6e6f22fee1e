"""What the jobs of frameworks share with their scenarios: lines, a gate that
holds one rank in the middle of training until it is killed, the result."""
import hashlib
import os
import time

EPOCHS = 6
GATE = int(os.environ.get("GATE_EPOCH", 3))  # the gate is at its beginning
RANK = int(os.environ.get("RANK", 0))


def say(*words):
    """One write, so that lines of ranks do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def resumed(epoch):
    say("rank", RANK, "resumed at epoch", epoch)


def saved(epoch):
    say("rank", RANK, "saved epoch", epoch)


def begins(epoch):
    say("rank", RANK, "begins epoch", epoch)
    if epoch != GATE or os.environ.get("GATE_RANK") != str(RANK):
        return
    while not os.path.exists("go"):
        if not os.path.exists("gate"):
            open("gate", "w").close()
        time.sleep(0.02)


def digest(parameters):
    data = b"".join(p.detach().cpu().numpy().tobytes() for p in parameters)
    return hashlib.sha256(data).hexdigest()[:16]


def ended(parameters):
    if RANK == 0:
        say("fingerprint", digest(parameters))


def leave():
    """Threads of gloo that outlive the group abort Python while it takes itself
    down, now and then."""
    import torch.distributed as dist
    if dist.is_initialized():
        dist.barrier()
    os._exit(0)
