"""The launchers that are measured, and how a trial of them is played: the
driver (driver.c) does all the timing of starts and ends, the rows of log files,
which take seconds, are timed here.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from common import (
    HERE,
    LATE,
    OLD_PYTHON,
    Failed,
    free_port,
    new_python,
    progress,
    torch_version,
)

CFLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra"]
HELPERS = {  # program: flags and sources
    "driver": ["driver.c", "stage.c"],
    "worker": ["-static", "worker.c"],
    "forkloop": ["-static", "forkloop.c"],
    "lines": ["-static", "lines.c"],
}
SETTLE_MS = 60  # from the last worker's start to what the trial then does
# How often torchrun looks. 1 does so each 5 s by default, which would be most of
# its figures; so it is told to look more often.
TORCH1_POLL_S, TORCH2_POLL_S = 0.05, 0.1


# -- contenders ---------------------------------------------------------------


class Contender:
    """Something that starts workers.

    column: of the Markdown table.
    dear: its trials take seconds, so it gets fewer of them.
    poll_s: how often it looks; the runs are spread over that time, or else
    each would show the same part of it.
    """

    dear = False
    poll_s = 0

    def __init__(self, label, column):
        self.label = label
        self.column = column

    def local(self, trial):
        """The command for workers on one node, without the program."""
        raise NotImplementedError

    def commands(self, trial):
        """One command for each node of the trial, without the program."""
        if trial.nnodes != "1":
            raise NotImplementedError
        return [self.local(trial)]


class Forkloop(Contender):
    def __init__(self, programs):
        super().__init__("fork+exec loop", "floor")
        self.program = str(programs / "forkloop")

    def local(self, trial):
        return [self.program, str(trial.workers)]


class Hydra(Contender):
    def __init__(self, program):
        super().__init__("hydra", "peer")
        self.program = program

    def local(self, trial):
        return [self.program, "-n", str(trial.workers)]


class Elastic(Contender):
    """Whoever takes torchrun's options: ddprun and torchrun itself."""

    def __init__(self, label, column, command):
        super().__init__(label, column)
        self.command = command

    def local(self, trial):
        options = [f"--nproc_per_node={trial.workers}"]
        if trial.restarts:
            options.append(f"--max_restarts={trial.restarts}")
        return self.command + options

    def conf(self, trial):
        return trial.conf

    def commands(self, trial):
        """The first node serves the rendezvous, so that a trial knows whom it
        kills."""
        if trial.nnodes == "1":
            return [self.local(trial)]
        nodes = int(trial.nnodes.split(":")[-1])
        every = self.command + [
            f"--nnodes={trial.nnodes}",
            f"--nproc_per_node={trial.workers // nodes}",
            f"--max_restarts={trial.restarts}",
            "--rdzv_backend=c10d",
            f"--rdzv_endpoint=127.0.0.1:{free_port()}",
        ]
        conf = self.conf(trial)
        return [
            every + [f"--rdzv_conf=is_host={1 if i == 0 else 0}{conf}"]
            for i in range(nodes)
        ]


class Torchrun(Elastic):
    dear = True

    def __init__(self, label, column, python, poll_s, *options):
        command = [python, str(HERE / "torchrun.py"), "--no_python", *options]
        super().__init__(label, column, command)
        self.poll_s = poll_s

    def local(self, trial):
        # Its default port may be somebody else's.
        return super().local(trial) + [f"--master_port={free_port()}"]

    def commands(self, trial):
        # Without this a newcomer finds no world with 2.15: rank 0 keeps the
        # store of the first round, and tells no one of it in another.
        # (dynamic_rendezvous.py, next_rendezvous)
        alone = ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"]
        more = alone if trial.play == "grow" else []
        return [more + c for c in super().commands(trial)]

    def conf(self, trial):
        # It takes whole seconds, and has no lease of a node.
        return ",last_call_timeout=1" if trial.play == "grow" else ""


# -- trials -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Trial:
    """What the driver plays; runs and dear_runs say how often, and quick_runs
    how often of those when time is short."""

    play: str
    runs: int
    dear_runs: int
    workers: int = 4
    nnodes: str = "1"
    restarts: int = 0
    limit_s: int = 20
    conf: str = ""  # of the rendezvous
    streams: str = ""  # of logs: redirects or tee
    quick_runs: int = 3

    def runs_of(self, contender):
        return self.dear_runs if contender.dear else self.runs

    def shortened(self):
        return dataclasses.replace(self, runs=self.quick_runs, dear_runs=1)


LIFE1 = Trial("life", runs=15, dear_runs=2, workers=1)
LIFE4 = Trial("life", runs=15, dear_runs=3)
LIFE16 = Trial("life", runs=11, dear_runs=2, workers=16)
LIFE64 = Trial("life", runs=9, dear_runs=2, workers=64)
RESTART = Trial("restart", runs=11, dear_runs=3, restarts=3)
RESTART2 = dataclasses.replace(RESTART, nnodes="2", dear_runs=2)
# torchrun finds a lost node after 15 to 43 s, or not at all.
NODE = Trial("node", runs=11, dear_runs=1, nnodes="1:2", restarts=3, limit_s=60)
SILENT = dataclasses.replace(
    NODE, play="silent", runs=9, conf=",heartbeat_timeout=0.3"
)
# 5 s is the default.
SILENT5 = dataclasses.replace(SILENT, runs=3, conf="", quick_runs=1)
# The first node serves the rendezvous, and is lost. Of two nodes the other one
# needs a proof that it is dead: silence is none.
HOST2 = dataclasses.replace(NODE, play="host")
HOST3 = dataclasses.replace(HOST2, workers=6, nnodes="2:3")
HOST5 = dataclasses.replace(HOST2, workers=10, nnodes="3:5")
MUTE3 = dataclasses.replace(
    HOST3, play="mute", runs=5, conf=",heartbeat_timeout=2"
)
GROW = Trial(
    "grow",
    runs=9,
    dear_runs=2,
    workers=6,
    nnodes="2:3",
    restarts=3,
    conf=",last_call_timeout=0.1",
    limit_s=30,
)
LINES = 2_000_000  # of 100 bytes, by each worker
REDIRECT = Trial(
    "logs",
    runs=5,
    dear_runs=1,
    limit_s=300,
    streams="redirects",
    quick_runs=1,
)
TEE = dataclasses.replace(REDIRECT, streams="tee")
ORPHANS = Trial("orphans", runs=11, dear_runs=1, limit_s=10)


class Stage:
    """Plays trials; the programs are those in `programs`."""

    def __init__(self, programs, quick):
        self.driver = str(programs / "driver")
        self.worker = str(programs / "worker")
        self.lines = str(programs / "lines")
        self.quick = quick
        self.played = {}  # (trial, contender): {figure: [number, ...]}
        self.failures = {}  # (trial, contender): why

    def figures(self, trial, contenders, figure):
        """{contender: numbers}, the numbers None where it failed."""
        if self.quick:
            trial = trial.shortened()
        fresh = [c for c in contenders if (trial, c) not in self.played]
        self.play(trial, fresh)
        return {c: self.played[trial, c].get(figure) for c in contenders}

    def play(self, trial, contenders):
        """Plays it for all of them in turn, and keeps the numbers."""
        most = max((trial.runs_of(c) for c in contenders), default=0)
        for c in contenders:
            self.played[trial, c] = {}
        for i in range(most):
            for c in contenders:
                n = trial.runs_of(c)
                k = i * n // most  # spreads n runs evenly over `most`
                if (i + 1) * n // most > k and not self.is_settled(trial, c):
                    self.play_noting_failure(trial, c, k)

    def is_settled(self, trial, contender):
        """It failed, or was too late at once: waiting again shows nothing."""
        figures = self.played[trial, contender].values()
        late = any(numbers[0] == LATE for numbers in figures)
        return late or (trial, contender) in self.failures

    def play_noting_failure(self, trial, contender, run):
        progress(f"{trial.play}, {trial.workers} workers: {contender.label}")
        try:
            numbers = self.play_once(trial, contender, run)
        except Failed as e:
            self.failures[trial, contender] = str(e)
            self.played[trial, contender] = {}
            return
        for name, number in numbers.items():
            self.played[trial, contender].setdefault(name, []).append(number)

    def play_once(self, trial, contender, run):
        if trial.play == "logs":
            return self.play_logs(trial, contender)
        part = (run + 0.5) / trial.runs_of(contender)
        settle_ms = SETTLE_MS + round(1000 * contender.poll_s * part)
        with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
            args = [self.driver, trial.play, str(trial.workers)]
            args += [str(settle_ms), str(trial.limit_s), folder]
            for command in contender.commands(trial):
                args += ["--", *command, self.worker, folder]
            done = subprocess.run(
                args,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment(folder),
            )
            if done.returncode != 0:
                raise Failed(done.stderr.strip() + last_output(folder))
        pairs = (line.split() for line in done.stdout.splitlines())
        return {k: LATE if v == "late" else float(v) for k, v in pairs}

    def play_logs(self, trial, contender):
        """Workers write lines as fast as they can; the console is a file."""
        with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
            console = pathlib.Path(folder) / "output"
            command = contender.local(trial)
            command += [f"--{trial.streams}=1", f"--log_dir={folder}/log"]
            command += [self.lines, "write", str(100 * LINES)]
            with open(console, "wb") as out:
                began = time.monotonic()
                child = subprocess.Popen(
                    command, stdout=out, env=environment(folder)
                )
                status, usage = os.wait4(child.pid, 0)[1:]
                took = time.monotonic() - began
                child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                raise Failed(f"status {child.returncode}")
            files = pathlib.Path(folder).glob("log/*/attempt_0/*/stdout.log")
            self.judge(trial, contender, list(files))
            if trial.streams == "tee":
                self.judge(trial, contender, [console])
        cpu = usage.ru_utime + usage.ru_stime
        return {"took_us": 1e6 * took, "cpu_us": 1e6 * cpu}

    def judge(self, trial, contender, files):
        """Every line is there, whole and in its place."""
        command = [self.lines, "check", *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True)
        wanted = [f"{r} {LINES}" for r in range(trial.workers)]
        if done.stdout.splitlines() != wanted:
            raise Failed(f"lines are torn or lost: {done.stderr.strip()}")


def environment(folder):
    """Ours without settings for launchers; temporary files go to `folder`."""
    foreign = ("PET_", "TORCHELASTIC_", "HYDRA_", "MPI")
    mine = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    # torchrun warns at length where this is not set.
    return {**mine, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}


def last_output(folder):
    try:
        lines = (pathlib.Path(folder) / "output").read_text().splitlines()
    except OSError:
        return ""
    return "".join(f"\n    {line}" for line in lines[-8:])


# -- who is here ---------------------------------------------------------------


def build_helpers(build):
    """Compiles what is older than its sources; returns the folder."""
    programs = build / "bench"
    programs.mkdir(exist_ok=True)
    newest = max(p.stat().st_mtime for p in HERE.glob("*.[ch]"))
    for name, parts in HELPERS.items():
        program = programs / name
        if program.exists() and program.stat().st_mtime > newest:
            continue
        words = [str(HERE / p) if p.endswith(".c") else p for p in parts]
        cc = os.environ.get("CC", "cc").split()
        command = [*cc, *CFLAGS, "-o", str(program), *words]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"bench: cannot build {name}")
    return programs


def find_hydra(notes):
    for name in ("mpiexec.hydra", "mpiexec.mpich"):
        if shutil.which(name):
            return [Hydra(name)]
    notes.append("hydra is left out; to have it: apt-get install mpich")
    return []


def find_torchrun(python, notes):
    """[] or what there is of it: with its defaults, with fast polling."""
    version = torch_version(python)
    if version is None:
        notes.append(f"torchrun is left out, {python} has none")
        return []
    progress(f"warming up torchrun {version}")
    command = [python, str(HERE / "torchrun.py"), "--help"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        notes.append(f"torchrun {version} is left out, it does not start")
        return []
    label = "torchrun " + ".".join(version.split(".")[:2])
    if not version.startswith("1."):
        return [Torchrun(label, "new", python, TORCH2_POLL_S)]
    fast = f"--monitor_interval={TORCH1_POLL_S}"
    return [Torchrun(label, "old", python, TORCH1_POLL_S, fast)]


@dataclasses.dataclass
class Who:
    """The contenders that are here."""

    ddprun: Contender
    forkloop: list
    hydra: list
    torchrun: list

    def everybody(self):
        return [self.ddprun, *self.forkloop, *self.hydra, *self.torchrun]

    def ours(self):
        """torchrun has no such thing."""
        return [self.ddprun]

    def dynamic(self):
        """The loop is linked statically, to be the floor in time."""
        return [self.ddprun, *self.hydra, *self.torchrun]

    def elastic(self):
        return [self.ddprun, *self.torchrun]

    def newest(self):
        """For trials in which torchrun takes minutes."""
        return [self.ddprun, *self.torchrun[-1:]]


def find(build, programs, notes):
    """notes gets a line for each that is not here."""
    pythons = [OLD_PYTHON, new_python()]
    if torch_version(OLD_PYTHON) is None:
        get = "apt-get install python3-torch"
        notes.append(f"Debian's torchrun is left out; to have it: {get}")
        pythons.remove(OLD_PYTHON)
    if pythons[-1] is None:
        pythons.pop()
        notes.append(
            "a current torchrun is left out; to have it: DDPRUN_TORCH=PYTHON,\n"
            "or make check-interop-new, which makes build-torch/"
        )
    torchrun = [t for p in pythons for t in find_torchrun(p, notes)]
    return Who(
        ddprun=Elastic("ddprun", "ours", [str(build / "ddprun")]),
        forkloop=[Forkloop(programs)],
        hydra=find_hydra(notes),
        torchrun=torchrun,
    )
