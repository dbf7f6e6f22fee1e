"""A cgroup with cpu control, of version 1 or 2, for as long as a bench runs."""
import contextlib
import os
import pathlib
import sys
import time

REMOVE_TRIES = 100  # of 0.1 s


class Refused(Exception):
    """None can be made here; says why."""


def mount_of():
    """Where cpu control is, and whether that is version 1."""
    mounts = [line.split() for line in
              pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    old = [m[1] for m in mounts if m[2] == "cgroup" and "cpu" in m[3].split(",")]
    new = [m[1] for m in mounts if m[2] == "cgroup2"]
    if not old and not new:
        raise Refused("no cgroup file system is mounted")
    return pathlib.Path((old or new)[0]), bool(old)


def own_path(controller):
    """Of this process, without the first slash; the controller of version 2 is ""."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path[1:]
    return ""


class Cgroup:
    """Made below the top one, so that it shares the processors with nothing else
    that this process is in; removed, and all as it was before, by remove()."""

    def __init__(self, name):
        self.top, is_old = mount_of()
        self.home = self.top / own_path("cpu" if is_old else "")
        self.gave = None  # the file to which +cpu was written
        if not (self.home / "cgroup.procs").exists():
            self.home = self.top  # a container sees its own group as the top
        self.tell_if_inside(is_old)
        self.folder = self.top / name
        try:
            if not is_old:
                self.hand_down()
            self.folder.mkdir()
        except OSError as error:
            self.take_back()
            raise Refused(f"{error.filename}: {error.strerror}") from error

    def tell_if_inside(self, is_old):
        """What this process starts may be in one anyway."""
        folders = [self.home, *self.home.parents]
        folders = folders[:folders.index(self.top) + 1]
        if is_old and self.home != self.top or any(
                (folder / "cpu.weight").exists() for folder in folders):
            print(f"this shell is in a cgroup with cpu control, {self.home}: what"
                  " is played as it is has no autogroups either")

    def hand_down(self):
        """Version 2: the top one says which controllers those below it have."""
        file = self.top / "cgroup.subtree_control"
        if "cpu" not in file.read_text().split():
            file.write_text("+cpu")
            self.gave = file

    def take_back(self):
        if self.gave is not None:
            self.gave.write_text("-cpu")

    @contextlib.contextmanager
    def inside(self):
        """What this process starts now is in it."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.home / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(REMOVE_TRIES):  # the last processes may just be ending
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                break
            time.sleep(0.1)
        else:
            print(f"{self.folder} cannot be removed", file=sys.stderr)
        self.take_back()
