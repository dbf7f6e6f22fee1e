"""Plays a job of a framework: two ranks on one node, four on two, undisturbed;
then once more with a worker that is killed, and with a node that is lost and
comes again. It goes on from the framework's own checkpoint, and the result is
that of the undisturbed run."""
import re

from interop import *

PLACES = {"1 x 2": 1, "2 x 2": 2}
WAIT_S = 600  # against hanging: imports take a minute on a busy machine
JOBS = HERE / "frameworks"
os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
               "TOKENIZERS_PARALLELISM": "false"}


def version(*packages):
    from importlib import metadata
    try:
        return ", ".join(f"{p} {metadata.version(p)}" for p in packages)
    except metadata.PackageNotFoundError as error:
        skip(f"this Python has no {error.name or packages}")


def by_ddprun(*program):
    """line(nodes, node, port) of a job."""
    def line(nodes, node, port):
        own = (["--standalone"] if nodes == 1 else
               [f"--nnodes={nodes}", f"--node_rank={node}",
                "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}"])
        return [DDPRUN, *own, "--nproc_per_node=2", "--max_restarts=2",
                *program]
    return line


class Play:
    def __init__(self, name, nodes, line, victim=None):
        port = free_port()
        self.name = name
        self.line = lambda node: line(nodes, node, port)
        self.folder = WORK / name.replace(" ", "-")
        self.folder.mkdir()
        os.chdir(self.folder)
        self.env = {} if victim is None else {"GATE_RANK": str(victim)}
        self.runs = []
        for node in range(nodes):
            self.start(node)

    def start(self, node):
        name = f"{self.folder.name}-{node}-{len(self.runs)}"
        self.runs.append(name)
        start(name, *self.line(node), **self.env)
        return name

    def text(self):
        return "".join(log(run) for run in self.runs)

    def wait(self, text, count=1):
        def come():
            return len(re.findall(text, self.text(), re.M)) >= count or [
                run for run in self.runs if started[run].poll() is not None]
        eventually(come, WAIT_S, f"{self.name}: '{text}' does not come")
        if len(re.findall(text, self.text(), re.M)) < count:
            fail(f"{self.name} ended without '{text}'")

    def lose(self, node):
        """The launcher of a node with all that it started, at once."""
        guard = started[self.runs[node]].pid
        pids = [guard]
        for _ in ("janitor", "agent"):
            below = pathlib.Path(f"/proc/{pids[-1]}/task/{pids[-1]}/children")
            pids.append(int(below.read_text().split()[0]))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        started.pop(self.runs.pop(node)).wait()

    def result(self):
        """Of the launchers that were not killed."""
        for run in self.runs:
            ends_with(0, run, WAIT_S)
        found = re.findall(r"fingerprint (\w+)$", self.text(), re.M)
        same(len(found), 1, f"{self.name}: fingerprints")
        nothing_left()
        os.chdir(WORK)
        return found[0]


def disturbed(name, nodes, line, fault, saved, resumed):
    world = 2 * nodes
    play = Play(name, nodes, line, victim=world - 1)
    eventually((play.folder / "gate").exists, WAIT_S, f"{name}: no gate")
    play.wait(saved)
    if STANDBYS:
        wait_standbys(nodes, 2)
    if fault == "worker":
        os.kill(worker(world - 1), signal.SIGKILL)
    else:
        play.lose(nodes - 1)
    (play.folder / "go").touch()
    if fault == "node":
        if nodes == 1:
            nothing_left()  # the whole job is gone, and is submitted again
        play.start(nodes - 1)
    play.wait(resumed, world)
    same(len(re.findall(resumed, play.text(), re.M)), world,
         f"{name}: ranks that resumed")
    # A node that comes anew has none.
    same(play.text().count("2 of 2 workers started from a standby"),
         (nodes - (fault == "node")) * STANDBYS, f"{name}: nodes with standbys")
    return play.result()


def play_all(title, line, saved=r"rank 0 saved epoch 2$",
             resumed=r"resumed at epoch 3$", places=PLACES):
    for place, nodes in places.items():
        wanted = Play(f"{place} undisturbed", nodes, line).result()
        for fault in "worker", "node":
            got = disturbed(f"{place} {fault} killed", nodes, line, fault,
                            saved, resumed)
            same(got, wanted, f"{title}, {place}, {fault} killed: the result")
    measured(f"{title}: {' and '.join(places)}, a worker and a node killed: "
             "the result of the undisturbed run")
    done()
