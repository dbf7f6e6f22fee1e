"""What runs on a machine of tests/chaos: all its processes, and those of one
launcher by the part that they have in it (docs/code.md, Processes)."""

import os
import signal

LISTENS = "0A"


def read(path, mode="r"):
    """None if it is not there any more."""
    try:
        with open(path, mode) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def on_machine(machine):
    """The pids of all of its processes but for those that the test has there."""
    ours = {machine.holder.pid, machine.proxy.pid if machine.proxy else 0}
    return [int(pid) for pid in os.listdir("/proc")
            if pid.isdigit() and int(pid) not in ours
            and link(f"/proc/{pid}/ns/net") == machine.net]


def is_dead(pid):
    stat = read(f"/proc/{pid}/stat")
    return stat is None or stat.rsplit(")", 1)[1].split()[0] in "ZX"


def send(pids, signal_number):
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except ProcessLookupError:
            pass


def freeze(machine):
    """SIGSTOP to all, also to those that were made meanwhile; returns them."""
    stopped = set()
    while True:
        new = [pid for pid in on_machine(machine) if pid not in stopped]
        if not new:
            return stopped
        send(new, signal.SIGSTOP)
        stopped.update(new)


def children(pid):
    words = read(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in (words or "").split()]


def below(pid):
    found = [pid]
    for each in found:
        found += children(each)
    return found


def name(pid):
    return (read(f"/proc/{pid}/comm") or "").strip()


def listens(pid):
    """Whether it has a socket that listens."""
    ends = set()
    for kind in ("tcp", "tcp6"):
        for line in (read(f"/proc/{pid}/net/{kind}") or "").splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS:
                ends.add(f"socket:[{fields[9]}]")
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(link(f"/proc/{pid}/fd/{fd}") in ends for fd in descriptors)


def parts(guard):
    """The pids of a launcher's parts, by part: guard, janitor, agent, server,
    worker; and `launcher`, all that are no workers."""
    found = {"guard": [guard], "janitor": [], "agent": [], "server": [],
             "worker": [], "launcher": [guard]}
    for janitor in children(guard):
        found["janitor"].append(janitor)
        for agent in children(janitor):
            found["agent"].append(agent)
            for pid in below(agent)[1:]:
                if name(pid) == "beats":
                    found["worker"].append(pid)
                    continue
                found["launcher"].append(pid)
                if listens(pid):
                    found["server"].append(pid)
    found["launcher"] += found["janitor"] + found["agent"]
    return found
