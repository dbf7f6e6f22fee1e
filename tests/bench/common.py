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
    """Three digits."""
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"


def is_noisy(numbers):
    if len(numbers) < 3 or LATE in numbers:
        return False
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return high - low > NOISY * middle


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
        f"{cpus} CPUs{cpu_model()}, {system_name()}, "
        f"Linux {platform.release()},\n"
        f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.2f}"
    )
