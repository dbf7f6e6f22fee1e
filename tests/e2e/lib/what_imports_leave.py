"""Imports what $PACKAGES names and writes what that left, and what is there of the
program, to $E2E_DIR/left.ATTEMPT.RANK; then waits for the standbys and, in attempt 0,
ends rank 0 by SIGKILL."""

import sys

at_start = sorted(sys.modules)

import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import threading  # noqa: E402
import warnings  # noqa: E402

import standbys  # noqa: E402

# What launcher/worker/env gives each round anew, and what each process has anew.
PLACES = "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_ERROR_FILE DDP_ROUND MASTER_PORT"
PLACES += " DDP_ROUND_KEY DDP_PROGRESS_FILE DDP_STOP_FILE DDP_SNAPSHOT_MEMORY"
PLAIN = (bool, int, str, bytes, type(None))


def is_plain(value):
    if type(value) in (tuple, list, set, frozenset):
        return all(is_plain(each) for each in value)
    return type(value) in PLAIN


def values(module):
    """Those of its attributes that can be compared between processes."""
    found = {}
    for key, value in list(vars(module).items()):
        if is_plain(value):
            is_set = type(value) in (set, frozenset)
            found[key] = repr(sorted(map(repr, value)) if is_set else value)
        elif type(value) in (type(values), type(len), type):
            found[key] = f"{value.__module__}.{value.__qualname__}"
    return found


def state_of(generator):
    """As text; None if it is no generator of random, numpy or torch."""
    kind = type(generator).__name__
    if kind == "Random":
        return repr(generator.getstate())
    if kind == "RandomState":
        return repr([getattr(x, "tolist", lambda: x)() for x in generator.get_state()])
    if kind == "Generator" and hasattr(generator, "bit_generator"):
        return repr(generator.bit_generator.state)
    if kind == "Generator" and hasattr(generator, "initial_seed"):
        return repr(generator.get_state().tolist())
    return None


def generators():
    """Those that are attributes of modules, each with a digest of its state."""
    import hashlib

    found = {}
    for name, module in list(sys.modules.items()):
        for key, value in list(getattr(module, "__dict__", {}).items()):
            state = state_of(value)
            if state is not None:
                digest = hashlib.sha256(state.encode()).hexdigest()[:16]
                found[f"{name}.{key}"] = digest
    return found


def descriptors():
    found = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            found.append([name, os.readlink("/proc/self/fd/" + name).split("[")[0]])
        except OSError:
            continue
    return found


def main():
    failed = []
    for name in os.environ["PACKAGES"].split():
        try:
            importlib.import_module(name)
        except ImportError as error:
            failed.append([name, str(error)])
    modules = {
        name: getattr(getattr(module, "__spec__", None), "origin", None)
        for name, module in list(sys.modules.items())
    }
    seen = {
        "failed": failed,
        "modules": modules,
        "values": {
            name: values(module)
            for name, module in list(sys.modules.items())
            if modules[name] and name not in ("__main__", "standbys")
        },
        "environ": {k: v for k, v in os.environ.items() if k not in PLACES.split()},
        "path": sys.path,
        "folder": os.getcwd(),
        "threads": threading.active_count(),
        "descriptors": descriptors(),
        "signals": [str(signal.getsignal(n)) for n in (1, 2, 10, 12, 13, 15)],
        "warnings": len(warnings.filters),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
    }
    seen["generators"] = generators()  # last: it imports
    attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    root = os.environ["E2E_DIR"]
    with open(f"{root}/left.{attempt}.{rank}", "w") as file:
        json.dump([at_start, seen], file, indent=1, sort_keys=True)
    if attempt == "0":
        for each in "01":
            standbys.wait_for_file(f"{root}/left.0.{each}", 300)
        standbys.wait(2, 300)
        if rank == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


main()
