"""What the parts of the bench share: figures, medians, and what is told of the
machine. Each part is a program of its own (rdzv/run, store/run) and, loaded by
`load_part`, rows of the one table that ./run prints.
"""

import contextlib
import importlib.machinery
import importlib.util
import math
import os
import pathlib
import platform
import re
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NOISY = 0.25  # the middle half of the runs spans more than this of the median
LATE = math.inf  # it did not happen within the trial's limit
OLD_PYTHON = "/usr/bin/python3"  # Debian's torch is for this one


class Failed(Exception):
    """A trial could not be played; says why."""


def load_part(name):
    """rdzv/run or store/run as a module."""
    path = str(HERE / name / "run")
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    loader.exec_module(module)
    return module


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


# -- figures ------------------------------------------------------------------


def figure(number):
    """Three digits; a count is exact."""
    if isinstance(number, int):
        return str(number)
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def is_noisy(numbers):
    if len(numbers) < 3 or LATE in numbers:
        return False
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return high - low > NOISY * middle


# -- Markdown -----------------------------------------------------------------

MARKDOWN_HEAD = """\
| what | of | median | ddprun is better by | n | min..max | target | verdict |
|---|---|--:|--:|--:|--:|---|---|"""


def not_in(limit_s):
    """What is said of what is LATE."""
    return f"not in {limit_s:g} s"


def markdown_line(
    what, who, numbers, times=None, goal="", is_met=None, late=not_in(60)
):
    """A row of the table under that head: numbers is None where the contender
    failed; times, how many times better ours is."""
    middle = spread = count = ""
    if numbers:
        middle = statistics.median(numbers)
        middle = late if middle == LATE else figure(middle)
        middle += " ~" if is_noisy(numbers) else ""
        ends = [min(numbers), max(numbers)] if len(numbers) > 1 else []
        spread = "..".join(late if n == LATE else figure(n) for n in ends)
        count = f"n={len(numbers)}"
    cells = [
        what,
        who,
        middle or "failed",
        figure(times) if times else "",
        count,
        spread,
        goal.replace("<=", "≤").replace(">=", "≥").replace(" x ", " × "),
        "" if is_met is None else "met" if is_met else "**MISSED**",
    ]
    return "|" + "".join(f" {c or '–'} |" for c in cells)


def times_better(what, ours, theirs):
    """By the medians; more is better where `what` ends with a rate. None where
    that means nothing."""
    if not ours or not theirs:
        return None
    mine, its = statistics.median(ours), statistics.median(theirs)
    if LATE in (mine, its) or 0 in (mine, its):
        return None
    return mine / its if what.endswith("/s)") else its / mine


def turn_ratio(ours, theirs):
    """How ours stands to theirs: the median of the ratios within each turn, since
    the machine's other load comes and goes. None where one of them is missing."""
    if not ours or not theirs:
        return None
    return statistics.median(mine / its for mine, its in zip(ours, theirs))


class MarkdownTitles:
    """A title that begins with blanks belongs to the one before it."""

    main = ""

    def full(self, title):
        if not title.startswith(" "):
            self.main = re.sub(r"(, p50)? \([^()]*\)$", "", title)
            return title
        return f"{self.main}; {title.strip()}"


# -- what is here -------------------------------------------------------------


def torch_version(python):
    """None where it has none. Importing torch would take a second."""
    look = "import importlib.metadata as m; print(m.version('torch'))"
    with contextlib.suppress(OSError):
        command = [python, "-c", look]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip().split("+")[0]
    return None


def new_python():
    """The python with a current torch: $DDPRUN_TORCH, or the one that
    tests/interop/check has made; None."""
    made = ROOT / "build-torch/bin/python"
    named = os.environ.get("DDPRUN_TORCH")
    return named or (str(made) if made.exists() else None)


def said(*command):
    """What a program prints of itself, "" where there is none."""
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stdout
    return ""


def versions():
    """A line each about those that are here."""
    lines = []
    for name, python in (("Debian's", OLD_PYTHON), ("a current", new_python())):
        version = python and torch_version(python)
        if version:
            lines.append(f"{name} PyTorch: {version}")
    for name, pattern, *command in (
        ("MPICH's hydra", r"Version: +(\S+)", "mpiexec.hydra", "--version"),
        ("Redis", r"v=(\S+)", "redis-server", "--version"),
        ("C compiler", r"(.+)", *os.environ.get("CC", "cc").split(), "--version"),
    ):
        found = re.search(pattern, said(*command))
        if found:
            lines.append(f"{name}: {found[1]}")
    return lines


def system_name():
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return "Linux"


def cpu_model():
    with contextlib.suppress(OSError):
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                return " (" + line.split(":", 1)[1].strip() + ")"
    return ""


def machine():
    """The figures mean nothing without it."""
    cpus = len(os.sched_getaffinity(0))
    return (
        f"{cpus} CPU{'' if cpus == 1 else 's'}{cpu_model()}, {system_name()}, "
        f"Linux {platform.release()},\n"
        f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.2f}"
    )
