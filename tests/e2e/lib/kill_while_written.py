"""Waits until one of the folders has a temporary file, which a writer has just
begun, and kills the processes at once. The writers are stopped first: if the file
was whole by then, they go on and the next one is waited for. So a half written
file is left, always.
usage: kill_while_written.py SECONDS FOLDER... -- WRITER... -- PID...
Prints how long it waited; status 1: nobody wrote."""
import contextlib
import glob
import os
import signal
import sys
import time

seconds = float(sys.argv[1])
words = " ".join(sys.argv[2:]).split(" -- ")
folders = words[0].split()
writers, pids = ([int(pid) for pid in part.split()] for part in words[1:])


def writes(folder):
    return bool(glob.glob(f"{folder}/step-*/shard-*.tmp.*"))


def state(pid, thread):
    """Z, too, if it is gone."""
    try:
        stat = open(f"/proc/{pid}/task/{thread}/stat").read()
    except (FileNotFoundError, ProcessLookupError):
        return "Z"
    return stat.rsplit(")", 1)[1].split()[0]


def is_stopped(pid):
    """All threads of it: the one that writes may be in a call of the kernel."""
    return all(state(pid, thread) in "TtZX"
               for thread in os.listdir(f"/proc/{pid}/task"))


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    while not is_stopped(pid):
        pass


begin = time.monotonic()
while time.monotonic() < begin + seconds:
    if not any(writes(folder) for folder in folders):
        continue
    for pid in writers:
        stop(pid)
    if any(writes(folder) for folder in folders):
        # Launchers first: one that sees its workers die starts others, which clear
        # the file away.
        for pid in pids + writers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # a guard's death ends its agent
        print(f"{time.monotonic() - begin:.3f} s")
        sys.exit(0)
    for pid in writers:
        os.kill(pid, signal.SIGCONT)
sys.exit(1)
