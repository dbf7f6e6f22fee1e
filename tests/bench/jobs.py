"""Real training jobs of which a worker is killed: how many come back. The
program is tests/interop/train.py, PyTorch's DDP over gloo with a snapshot every
few epochs, as its users write it.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from common import HERE, Failed, free_port, progress, torch_version
from launchers import environment

TRAIN = [str(HERE.parent / "interop" / "train.py"), "12", "3"]
SAVED = "Epoch 3 | Training snapshot saved"
JOBS = 10
LIMIT_S = 20  # from the kill to the end; or, where that is more, ...
TIMES_WHOLE = 3  # ... so many times what an undisturbed job takes in all
OPTIONS = ["--nproc_per_node=2", "--max_restarts=3"]
ABOUT = f"""
Jobs: two workers, 3 restarts allowed; a job survives if it ends with 0 and the
result of an undisturbed one, within {LIMIT_S} s of the kill or, if that is more,
{TIMES_WHOLE} times what an undisturbed job takes. "Own stores" is torchrun with
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 and --standalone: without a c10d rendezvous
the variable has no effect."""


@dataclasses.dataclass(frozen=True)
class Launcher:
    """Starts the job. Its label and column are those of the table."""

    label: str
    column: str
    command: tuple
    more: tuple = ()  # of the environment
    needs_port: bool = False

    def line(self):
        port = [f"--master_port={free_port()}"] if self.needs_port else []
        return [*self.command, *OPTIONS, *port, *TRAIN]


def marked(mark):
    """The processes that have this in their environment."""
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if mark.encode() in words:
                yield int(path.parent.name), words


class Job:
    """One launch, in a folder of its own."""

    def __init__(self, launcher, folder):
        self.mark = f"BENCH_JOB={folder}"
        self.log = pathlib.Path(folder) / "log"
        env = environment(folder) | dict(launcher.more)
        env |= {"BENCH_JOB": folder, "EPOCH_PAUSE": "0.2"}
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                launcher.line(),
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def text(self):
        return self.log.read_text(errors="replace")

    def result(self):
        found = re.findall(r"^fingerprint (\w+)$", self.text(), re.M)
        return found[0] if len(found) == 1 else None

    def kill_worker(self, limit_s):
        """Once it has saved twice; Failed if it does not get there."""
        until = time.monotonic() + limit_s
        while SAVED not in self.text():
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"it does not train: {self.text()[-400:]}")
            time.sleep(0.02)
        workers = [p for p, words in marked(self.mark) if b"RANK=1" in words]
        if len(workers) != 1:
            raise Failed(f"{len(workers)} workers have rank 1")
        os.kill(workers[0], signal.SIGKILL)

    def why_lost(self, wanted, limit_s):
        """None if it came to the result that is wanted, in time."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"not over {limit_s:.0f} s after the kill"
        if status != 0:
            return f"status {status}"
        return None if self.result() == wanted else "another result"

    def end(self):
        for pid, _ in marked(self.mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def job(launcher):
    with tempfile.TemporaryDirectory(
        prefix="ddprun-bench-", ignore_cleanup_errors=True
    ) as folder:
        started = Job(launcher, folder)
        try:
            yield started
        finally:
            started.end()


class Jobs:
    """launchers is empty if the jobs are left out: python is None, and not one
    with a current PyTorch, or there is no time (quick)."""

    def __init__(self, build, python, quick):
        self.launchers = []
        if python is None or quick:
            return
        ours = (str(build / "ddprun"),)
        theirs = (python, "-m", "torch.distributed.run")
        # Only DynamicRendezvousHandler looks at it (dynamic_rendezvous.py).
        alone = (("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),)
        version = torch_version(python) or "2"
        name = "torchrun " + ".".join(version.split(".")[:2])
        self.launchers = [
            Launcher("ddprun", "ours", ours, (("PYTHON_EXEC", python),)),
            Launcher(name, "new", theirs, needs_port=True),
            Launcher(
                f"{name}, own stores", "alone", (*theirs, "--standalone"), alone
            ),
        ]

    def survivors(self):
        """{launcher: [how many of JOBS came to the right end]}"""
        began = time.monotonic()
        with job(self.launchers[0]) as undisturbed:
            undisturbed.process.wait(10 * LIMIT_S)
            wanted = undisturbed.result()
        limit_s = max(LIMIT_S, TIMES_WHOLE * (time.monotonic() - began))
        if wanted is None:
            raise Failed("an undisturbed job has no result")
        good = dict.fromkeys(self.launchers, 0)
        for i in range(JOBS):
            for launcher in self.launchers:
                progress(f"survive, job {i + 1}: {launcher.label}")
                with job(launcher) as j:
                    j.kill_worker(limit_s)
                    why = j.why_lost(wanted, limit_s)
                good[launcher] += why is None
                if why is not None:
                    sys.stderr.write(
                        f"survive, job {i + 1}: {launcher.label}: {why}\n"
                    )
        return {launcher: [n] for launcher, n in good.items()}
