"""Waits until one of the folders has a temporary file, which a writer has just
begun, and kills the processes at once.
usage: kill_while_written.py SECONDS FOLDER... -- PID...
Prints how long it waited; status 1: nobody wrote."""
import os
import signal
import sys
import time

seconds = float(sys.argv[1])
end = sys.argv.index("--")
folders, pids = sys.argv[2:end], [int(pid) for pid in sys.argv[end + 1:]]


def writes(folder):
    try:
        return any(name.startswith("step-") and ".tmp." in name
                   for name in os.listdir(folder))
    except FileNotFoundError:
        return False


begin = time.monotonic()
while time.monotonic() < begin + seconds:
    if any(writes(folder) for folder in folders):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        print(f"{time.monotonic() - begin:.3f} s")
        sys.exit(0)
sys.exit(1)
