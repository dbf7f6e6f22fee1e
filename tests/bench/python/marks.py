"""What the programs of this bench write down: "ATTEMPT RANK WHAT VALUE" lines in
$MARKS, where VALUE is a time or a number of steps. In attempt 0 rank 1 ends by
SIGKILL once the file $MARKS.kill is there, in the middle between two checkpoints;
what starts after that is attempt 1."""

import os
import time

EVERY = 20  # steps from checkpoint to checkpoint
# Not the restart count: on a node whose own workers did not fail torchrun's stays.
ATTEMPT = str(int(os.path.exists(os.environ["MARKS"] + ".kill")))
RANK = os.environ["RANK"]


def mark(what, value=None):
    value = time.monotonic() if value is None else value
    fd = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{ATTEMPT} {RANK} {what} {value:.6f}\n".encode())
    os.close(fd)


def stepped(step):
    """After the optimizer's step of that number, before anything is saved. True: it
    was enough."""
    if not stepped.told:
        mark("step")
        stepped.told = True
    if ATTEMPT == "0" and RANK == "1" and step % EVERY == EVERY // 2:
        if os.path.exists(os.environ["MARKS"] + ".kill"):
            mark("last", step)
            mark("kill")
            os.kill(os.getpid(), 9)
    if os.environ.get("DDP_PROGRESS_FILE"):
        with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
            file.write(str(step))
    return ATTEMPT != "0" and step >= stepped.first + 3


stepped.told, stepped.first = False, 0


def begins(step):
    """Training goes on after that step."""
    mark("from", step)
    stepped.first = step
