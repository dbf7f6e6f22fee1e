"""For programs under test: makes progress, and waits until so many standbys of
this node wait. A standby is a child of the launcher in a session that is neither
its own nor the launcher's."""

import os
import time


def stat_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[1]), int(fields[3])  # parent, session


def children(agent):
    """The session of each child that is in another one than the launcher."""
    found = {}
    ours = stat_of(agent)[1]
    for name in os.listdir("/proc"):
        try:
            parent, session = stat_of(int(name))
        except (ValueError, OSError):
            continue
        if parent == agent and session != ours:
            found[int(name)] = session
    return found


def waiting(agent):
    return [pid for pid, session in children(agent).items() if pid != session]


def wait_for_file(path, seconds=60):
    until = time.monotonic() + seconds
    while not (os.path.exists(path) and os.path.getsize(path)):
        if time.monotonic() > until:
            raise TimeoutError(f"{path} is not there")
        time.sleep(0.02)


def wait(count, seconds=60):
    agent = os.getppid()
    with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
        file.write("1")
    until = time.monotonic() + seconds
    while len(waiting(agent)) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"only {len(waiting(agent))} of {count} standbys")
        time.sleep(0.02)
    time.sleep(0.5)  # until the launcher has read that they are there
