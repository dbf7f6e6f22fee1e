"""Writes down when the training came to which step, until it is killed.
usage: watch_steps.py STARTED PROGRESS
Reads which workers were started, looks at the progress file of the newest rank
0, and appends "MS STEP" to PROGRESS when the step has changed.
"""
import os
import re
import stat
import sys
import time

started, progress = sys.argv[1:]
pattern = re.compile(r"round=(\d+) rank=0 .*pid=(\d+) ")


def newest(text):
    """The pid of the rank 0 that was started last, or None."""
    found = None
    for line in text.splitlines():
        match = pattern.match(line)
        if match:
            found = match[2]
    return found


def progress_file(pid):
    for word in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
        if word.startswith(b"DDP_PROGRESS_FILE="):
            return word.split(b"=", 1)[1].decode()
    return None


def step_in(path):
    """The path is a descriptor of the agent, which may be a pipe by now: reading
    that would wait, and take what a worker says."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("no file any more")
        return int(os.read(fd, 64))
    finally:
        os.close(fd)


pid = path = last = None
with open(progress, "a", buffering=1) as out:
    while True:
        time.sleep(0.03)
        try:
            now = newest(open(started).read())
            if now != pid or path is None:
                pid, path = now, None
                path = progress_file(pid) if pid else None
            step = step_in(path) if path else None
        except (OSError, ValueError):
            continue  # it is starting, or gone
        if step is not None and (pid, step) != last:
            last = (pid, step)
            out.write(f"{time.time() * 1000:.0f} {step}\n")
