"""Writes all that a program can see of itself to $E2E_DIR/seen.ATTEMPT.RANK, then
waits for the standbys and, in attempt 0, ends rank 0 by SIGKILL. What may differ
between two attempts is written as a name only."""

import sys

seen = {
    "main names": list(globals())[:20],
    "file": __file__,
    "loader": type(__loader__).__name__,
    "spec": __spec__ and [__spec__.name, __spec__.origin, __spec__.parent],
    "package": __package__,
    "annotations": repr(globals().get("__annotations__")),
    "builtins": type(__builtins__).__name__,
    "main module": type(sys.modules["__main__"]).__name__,
    "is main": sys.modules["__main__"].__dict__ is globals(),
    "argv": sys.argv,
    "orig_argv": getattr(sys, "orig_argv", None),
    "path": list(sys.path),
    "modules at the start": sorted(sys.modules),
    "meta_path": [str(getattr(f, "__name__", type(f))) for f in sys.meta_path],
    "path_hooks": len(sys.path_hooks),
    "flags": str(sys.flags),
    "recursion": sys.getrecursionlimit(),
    "switch": sys.getswitchinterval(),
    "hooks": [
        sys.excepthook is sys.__excepthook__,
        sys.displayhook is sys.__displayhook__,
        sys.unraisablehook is sys.__unraisablehook__,
        str(sys.gettrace()),
        str(sys.getprofile()),
    ],
    "exc_info": str(sys.exc_info()),
    "code file": (lambda: 0).__code__.co_filename,
    "warnoptions": sys.warnoptions,
    "xoptions": sys._xoptions,
    "prefixes": [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix],
}

import os  # noqa: E402

PLACES = (
    "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_ERROR_FILE DDP_ROUND MASTER_PORT"
    " DDP_ROUND_KEY DDP_PROGRESS_FILE DDP_STOP_FILE DDP_SNAPSHOT_MEMORY"
).split()


def is_apart(entry):
    return entry.partition("=")[0] in PLACES


def without_places(lines):
    return [line.partition("=")[0] if is_apart(line) else line for line in lines]


def status_fields():
    wanted = "Umask TracerPid Uid Gid Groups SigQ SigPnd SigBlk SigIgn SigCgt CapInh "
    wanted += "CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Cpus_allowed_list "
    wanted += "Mems_allowed_list Threads CoreDumping THP_enabled"
    with open("/proc/self/status") as file:
        return [
            line.strip()
            for line in file
            if line.split(":")[0] in wanted.split() and not line.startswith("SigQ")
        ]


def descriptors():
    found = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        with open("/proc/self/fdinfo/" + name) as file:
            flags = [line.split()[1] for line in file if line.startswith("flags")]
        found.append([name, target.split("[")[0], flags])
    return found


def streams():
    found = []
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        raw = getattr(stream.buffer, "raw", stream.buffer)
        found.append(
            [
                stream.name,
                stream.mode,
                stream.encoding,
                stream.errors,
                str(stream.newlines),
                stream.line_buffering,
                stream.write_through,
                stream.isatty(),
                stream.seekable(),
                type(stream.buffer).__name__,
                type(raw).__name__,
                raw.name,
                raw.mode,
                raw.closefd,
                raw.fileno(),
            ]
        )
    return found


def answer(value):
    return value + 1


def of_multiprocessing():
    import multiprocessing

    found = []
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found.append([method, pool.map(answer, [41])])
    return found + [multiprocessing.get_start_method()]


def main():
    environ = [f"{key}={value}" for key, value in os.environ.items()]
    seen["environ"] = sorted(without_places(environ))
    seen["status"] = status_fields()
    seen["descriptors"] = descriptors()
    seen["streams"] = streams()

    import asyncio  # noqa: F401 and others, as the standby did
    import atexit
    import ctypes
    import faulthandler
    import gc
    import json
    import locale
    import logging
    import random
    import resource
    import signal
    import subprocess
    import threading
    import unittest  # noqa: F401
    from multiprocessing import pool  # noqa: F401

    import standbys

    libc = ctypes.CDLL(None)
    dies_by = ctypes.c_int()
    libc.prctl(1 + 1, ctypes.byref(dies_by), 0, 0, 0)  # PR_GET_PDEATHSIG
    with open("/proc/self/cmdline") as file:
        seen["cmdline"] = file.read().rstrip("\0").split("\0")
    for name in ("comm", "cgroup", "oom_score_adj", "personality", "loginuid"):
        try:
            with open("/proc/self/" + name) as file:
                seen[name] = file.read()
        except OSError as error:
            seen[name] = error.strerror
    child = subprocess.run(["env", "-0"], stdout=subprocess.PIPE, check=True)
    lines = child.stdout.decode("utf-8", "surrogateescape").split("\0")
    seen["C environ"] = sorted(without_places(lines))
    seen["dies by"] = dies_by.value
    seen["dumpable"] = libc.prctl(3, 0, 0, 0, 0)
    seen["atexit"] = atexit._ncallbacks()
    seen["faulthandler"] = faulthandler.is_enabled()
    seen["gc"] = [gc.isenabled(), gc.get_threshold()]
    seen["frozen objects"] = gc.get_freeze_count()
    seen["locale"] = [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()]
    seen["logging"] = [repr(logging.root), len(logging.root.handlers)]
    seen["limits"] = [
        resource.getrlimit(getattr(resource, name))
        for name in dir(resource)
        if name.startswith("RLIMIT_")
    ]
    seen["signals"] = [
        str(signal.getsignal(n)) for n in range(1, signal.NSIG) if n not in (32, 33)
    ]
    seen["threads"] = [
        threading.active_count(),
        threading.main_thread() is threading.current_thread(),
        threading.main_thread().ident == threading.get_ident(),
        threading.main_thread().name,
        threading.get_native_id() == os.getpid(),
    ]
    seen["process"] = [
        os.getsid(0) == os.getpid(),
        os.getpgid(0) == os.getpid(),
        os.getppid() == standbys.stat_of(os.getpid())[0],
        os.getcwd(),
        os.sched_getscheduler(0),
        os.nice(0),
        sorted(os.sched_getaffinity(0)),
    ]
    seen["stdin"] = sys.stdin.read()
    seen["multiprocessing"] = of_multiprocessing()
    import multiprocessing

    apart = {
        "authkey": multiprocessing.current_process().authkey.hex(),
        "random": random.random(),
    }
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    name = f"{os.environ['E2E_DIR']}/%s.{attempt}.{os.environ['RANK']}"
    with open(name % "seen", "w") as file:
        json.dump(seen, file, indent=1, sort_keys=True)
    with open(name % "apart", "w") as file:
        json.dump(apart, file, indent=1, sort_keys=True)
    with open(f"{os.environ['E2E_DIR']}/cpus.{os.environ['RANK']}", "w") as file:
        print(sorted(os.sched_getaffinity(0)), file=file)
    if attempt == "0":
        workers = int(os.environ["LOCAL_WORLD_SIZE"])
        standbys.wait(workers)
        for rank in range(workers):  # the others have told what they see
            standbys.wait_for_file(f"{os.environ['E2E_DIR']}/apart.0.{rank}")
        if os.environ["RANK"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


if __name__ == "__main__":
    main()
