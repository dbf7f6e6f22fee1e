"""What the interop scenarios share: real PyTorch against our programs.

A scenario begins with `from interop import *` and ends with `done()`. Whatever
it starts carries INTEROP_MARK=FOLDER in its environment, so that what is left of
it can be found, and nothing else.
"""
import atexit
import contextlib
import datetime
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ["INTEROP_BIN"])
HERE = pathlib.Path(__file__).resolve().parent
DDPRUN, DDPRDZVD = str(BIN / "ddprun"), str(BIN / "ddprdzvd")
WORK = pathlib.Path(tempfile.mkdtemp(prefix="s.", dir=os.environ["INTEROP_WORK"]))
os.chdir(WORK)
os.environ["INTEROP_MARK"] = str(WORK)
os.environ["PYTHON_EXEC"] = sys.executable  # by which ddprun runs a .py
MARK = f"INTEROP_MARK={WORK}".encode()
namespaces = []
started = {}


# -- the end ------------------------------------------------------------------

def marked():
    """Pids of our own processes that live, without this one."""
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pid = int(path.parent.name)
            if pid != os.getpid() and MARK in path.read_bytes().split(b"\0"):
                yield pid


def worker(rank):
    """The pid of the one worker that has this rank."""
    found = []
    for pid in marked():
        with contextlib.suppress(OSError):
            words = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            if f"RANK={rank}".encode() in words.split(b"\0"):
                found.append(pid)
    same(len(found), 1, f"workers with rank {rank}")
    return found[0]


def cleanup():
    for pid in marked():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    for ns in namespaces:
        subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL)
    os.chdir("/")
    shutil.rmtree(WORK, ignore_errors=True)


atexit.register(cleanup)
for signo in signal.SIGTERM, signal.SIGHUP:
    signal.signal(signo, lambda s, _: sys.exit(128 + s))


def show_logs():
    for path in sorted(WORK.glob("*.log")):
        print(f"--- {path.name}")
        print(*path.read_text(errors="replace").splitlines()[-40:], sep="\n")


def fail(*words):
    print("no:", *words)
    show_logs()
    sys.exit(1)


def on_exception(*what):
    sys.__excepthook__(*what)
    show_logs()


sys.excepthook = on_exception


def skip(why):
    print(why)
    sys.exit(77)


def measured(text):
    print(f"measured: {text}")


def same(got, wanted, what):
    if got != wanted:
        fail(f"{what}: got {got!r}, wanted {wanted!r}")


def has(text, name):
    """Whether the log of what was started as `name` has this text."""
    if text not in log(name):
        fail(f"no '{text}' in {name}.log")


def log(name):
    path = WORK / f"{name}.log"
    return path.read_text(errors="replace") if path.exists() else ""


# -- starting and waiting -----------------------------------------------------

def free_port():
    """Below the range that the kernel gives to those who do not ask."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("", port))
            return port


def eventually(check, seconds=60, what="it does not come"):
    until = time.monotonic() + seconds
    while not (answer := check()):
        if time.monotonic() > until:
            fail(what)
        time.sleep(0.02)
    return answer


def start(name, *command, on=None, **env):
    """In the background, its output in NAME.log."""
    if on:
        command = in_machine(on, command)
    with open(WORK / f"{name}.log", "wb") as out:
        started[name] = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, env={**os.environ, **env})
    return started[name]


def wait_log(text, name, count=1, seconds=60):
    eventually(lambda: log(name).count(text) >= count or
               started[name].poll() is not None and "ended", seconds,
               f"'{text}' does not come in {name}.log")
    if log(name).count(text) < count:
        fail(f"{name} ended without '{text}'")


def ends_with(status, name, seconds=150):
    try:
        got = started[name].wait(seconds)
    except subprocess.TimeoutExpired:
        fail(f"{name} does not end")
    same(got, status, f"status of {name}")


def daemon(name="daemon", on=None, address="127.0.0.1", options=("--c10d",)):
    """A ddprdzvd with a store; its port."""
    port = free_port()
    start(name, DDPRDZVD, f"--listen={address}:{port}", *options, on=on)
    wait_log("serving on port", name)
    return port


def nothing_left():
    eventually(lambda: not list(marked()), 10, "processes are left")


def done():
    for name, process in started.items():
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    nothing_left()


# -- standbys -----------------------------------------------------------------

STANDBYS = os.environ.get("PET_STANDBY", "none") != "none"  # check-frameworks


def standbys():
    """Pids of importers, and of standbys that are their launcher's children."""
    parents = {}
    for pid in marked():
        with contextlib.suppress(OSError):
            if b"(imports ahead for ddprun)" in \
                    pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
                parents[pid] = int(stat.rpartition(")")[2].split()[1])
    return [pid for pid, parent in parents.items() if parent not in parents]


def wait_standbys(nodes, workers):
    """Until each node has a standby for each of its workers."""
    eventually(lambda: len(standbys()) == nodes * (1 + workers), 600,
               f"no standbys of {nodes * workers} workers")
    time.sleep(0.5)  # until the launchers have read that they are there


# -- networks -----------------------------------------------------------------

def network(*machines):
    """Machines at one switch: 10.78.0.1, .2, ..., their names known to all."""
    if os.getuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        skip("needs root, ip and unshare, to make network namespaces")

    def ip(*words):
        if subprocess.run(["ip", *words]).returncode != 0:
            skip("network namespaces cannot be made here")

    switch = f"dpi{os.getpid()}-sw"
    namespaces.append(switch)
    ip("netns", "add", switch)
    ip("-n", switch, "link", "add", "br0", "type", "bridge")
    ip("-n", switch, "link", "set", "br0", "up")
    hosts = ["127.0.0.1 localhost", "::1 localhost"]
    for i, machine in enumerate(machines, 1):
        ns = f"dpi{os.getpid()}-{machine}"
        namespaces.append(ns)
        ip("netns", "add", ns)
        ip("-n", ns, "link", "add", "eth0", "type", "veth", "peer", "name",
           f"to-{machine}", "netns", switch)
        ip("-n", switch, "link", "set", f"to-{machine}", "master", "br0")
        ip("-n", switch, "link", "set", f"to-{machine}", "up")
        ip("-n", ns, "address", "add", f"10.78.0.{i}/24", "dev", "eth0")
        ip("-n", ns, "link", "set", "lo", "up")
        ip("-n", ns, "link", "set", "eth0", "up")
        hosts.append(f"10.78.0.{i} {machine}")
    pathlib.Path("hosts").write_text("\n".join(hosts) + "\n")


def in_machine(machine, command):
    return ["ip", "netns", "exec", f"dpi{os.getpid()}-{machine}", "unshare",
            "--uts", "--mount", "sh", "-c",
            'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && '
            'exec "$@"', "sh", machine, WORK / "hosts", *command]


# -- PyTorch ------------------------------------------------------------------

def torch_version():
    import torch
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def store(port, timeout=20, host="127.0.0.1", **more):
    """A client of the store there; options that this PyTorch lacks are left
    out."""
    from torch.distributed import TCPStore
    if torch_version() < (2, 0):
        more = {}
    return TCPStore(host, port, world_size=-1 if not more else None,
                    is_master=False, wait_for_workers=False,
                    timeout=datetime.timedelta(seconds=timeout), **more)


def torchrun(*options):
    """The command of torchrun itself. Debian's 1.13 does not start as it is
    under Python 3.11, see tests/bench/torchrun.py."""
    if torch_version() < (2, 0):
        return [sys.executable, HERE.parent / "bench" / "torchrun.py", *options]
    return [sys.executable, "-m", "torch.distributed.run", *options]
