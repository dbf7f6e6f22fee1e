# The first part of the standby's program, before runner.py: what is imported ahead,
# what is watched meanwhile, and what a worker writes down of its own imports.
import os
import sys


def in_progress():
    """The modules whose import has begun and is not over, outermost first."""
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "_initializing", False):
            found.append(name)
    return found


class Watch:
    """What the imports do that they must not."""

    ALL = "reads all variables"

    def __init__(self, places):
        self.places = frozenset(places)
        self.bad = {}  # module: why
        self.written = {}  # variable: value, None if it was removed
        self.listed = []  # modules that went through all variables
        self.values = []  # weak references to the values that they got

    def blame(self, why):
        for name in in_progress():
            self.bad.setdefault(name, why)

    def lists(self):
        self.listed += in_progress()

    def give(self, kind):
        import weakref

        value = kind("0")
        self.values.append(weakref.ref(value))
        return value

    def look_for_kept(self):
        """Who went through all variables perhaps kept those of a place."""
        if not self.values:
            return
        import gc

        gc.collect()
        if any(value() is not None for value in self.values):
            for name in self.listed:
                self.bad.setdefault(name, self.ALL)
        self.listed, self.values = [], []


class Name(str):
    """Of a variable of a place, in a list of all."""


def watched_value(watch):
    """A class for the value of such a variable, which tells `watch` of any use."""

    def use(name):
        real = getattr(str, name)

        def method(self, *args):
            watch.blame(watch.ALL)
            return real(self, *args)

        return method

    used = "eq ne lt le gt ge hash len str repr format contains add mod iter getitem"
    body = {"__%s__" % name: use("__%s__" % name) for name in used.split()}
    body["__getattribute__"] = use("__getattribute__")
    body["__int__"] = lambda self: watch.blame(watch.ALL) or 0
    body["__float__"] = lambda self: watch.blame(watch.ALL) or 0.0
    return type("Value", (str,), body)


def watched_environ(watch):
    """A class for os.environ that tells `watch` of what is read and written."""

    Value = watched_value(watch)

    class Environ(type(os.environ)):
        def __getitem__(self, key):
            if type(key) is Name:
                return watch.give(Value)
            if key in watch.places:
                watch.blame("reads " + key)
            return super().__getitem__(key)

        def __setitem__(self, key, value):
            watch.written[key] = value
            super().__setitem__(key, value)

        def __delitem__(self, key):
            watch.written[key] = None
            super().__delitem__(key)

        def __iter__(self):
            watch.lists()
            yield from super().__iter__()
            yield from [Name(key) for key in watch.places]

    return Environ


class Asked:
    """While it is entered, `watch` is told of imports that ask what differs between
    workers: bytes by chance, of which numpy's generators are made (not uuid's, which
    large packages draw for names), and with `apart` which CPUs they have."""

    # numpy.random has one generator, which renew_secrets seeds; torch counts CPUs.
    HARMLESS = ("numpy.random", "torch.")

    def __init__(self, watch, apart):
        import random

        self.watch = watch
        self.real = [(random, "_urandom", random._urandom)]
        if apart:
            self.real.append((os, "sched_getaffinity", os.sched_getaffinity))

    def __enter__(self):
        for module, name, real in self.real:
            setattr(module, name, self.watched(name, real))

    def __exit__(self, *_):
        for module, name, real in self.real:
            setattr(module, name, real)

    def watched(self, name, real):
        def call(*args):
            importing = in_progress()
            if importing and not importing[-1].startswith(self.HARMLESS):
                self.watch.blame("calls os." + name.strip("_"))
            return real(*args)

        return call


class Seeds:
    """While it is entered: the generators of random that imports seed by chance."""

    def __init__(self):
        self.drawn = []

    def __enter__(self):
        import random

        self.kind, self.real = random.Random, random.Random.seed

        def seed(generator, a=None, version=2):
            self.drawn = [each for each in self.drawn if each is not generator]
            if a is None:
                self.drawn.append(generator)
            self.real(generator, a, version)

        self.kind.seed = seed

    def __exit__(self, *_):
        self.kind.seed = self.real

    def renew(self):
        for generator in self.drawn:
            generator.seed()
        self.drawn = []


class Guard:
    """First of sys.meta_path: lets nobody import what is the user's own."""

    def __init__(self, watch):
        self.watch = watch
        self.roots = [os.path.dirname(os.__file__) + os.sep]

    def is_installed(self, place):
        parts = place.split(os.sep)
        return (
            "site-packages" in parts
            or "dist-packages" in parts
            or any(place.startswith(root) for root in self.roots)
        )

    def places(self, spec):
        if spec.has_location and spec.origin:
            return [spec.origin]
        return list(spec.submodule_search_locations or [])

    def find_spec(self, name, path=None, target=None):
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is None:
                continue
            if all(self.is_installed(place) for place in self.places(spec)):
                return spec
            self.watch.blame("imports " + name + ", which is not installed")
            raise ModuleNotFoundError(name + " is not imported ahead", name=name)
        return None


class Recorder:
    """First of sys.meta_path: writes down each module that is imported. One that is
    only looked for (importlib.util.find_spec) is not there when the next one is."""

    def __init__(self, area):
        self.area = area
        self.at = 1
        self.last = ""

    def find_spec(self, name, path=None, target=None):
        if self.last in sys.modules:
            self.write(self.last.encode("ascii", "replace"))
        self.last = name
        return None

    def write(self, name):
        if not name.replace(b"_", b"").replace(b".", b"").isalnum():
            return  # what no program writes as a word is not imported ahead
        line = name + b"\n"
        end = self.at + len(line)
        if self.area[0] != 0 or end > len(self.area):
            sys.meta_path.remove(self)
            self.area.close()
        else:
            self.area[self.at : end] = line
            self.at = end


# -- what an import may leave behind -------------------------------------------


def descriptors():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(name + " " + os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass  # the folder's own
    return found


def shared_maps():
    with open("/proc/self/maps") as file:
        return sum(1 for line in file if line.split(" ", 2)[1].startswith("rw-s"))


def left_behind(before):
    """What there is now that was not there: a reason, or None."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return "starts a thread"
    opened = descriptors() - before
    if opened:
        return "opens " + sorted(opened)[0].split(" ", 1)[1]
    if shared_maps():
        return "maps shared memory"
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return "starts a process"


def import_all(names, watch):
    """Imports them in their order; what fails is left to the program."""
    import importlib

    before = descriptors()
    group = []
    for at, name in enumerate(names):
        group.append(name)
        try:
            importlib.import_module(name)
        except BaseException:  # SystemExit, too: the program meets it itself
            pass
        watch.look_for_kept()
        following = names[at + 1 :][:1]
        if following and following[0].split(".")[0] == name.split(".")[0]:
            continue
        why = left_behind(before)
        if why is not None:
            for each in group:
                watch.bad.setdefault(each, why)
        if watch.bad:
            return
        group = []


# -- the list for a cold start -------------------------------------------------

LIST_MAX = 1024 * 1024  # as in prefetch.h
PAGE = 4096
STEP = 16  # pages; what lies between two that are used is read with them


def parts_of(line, pagemap):
    """Those of a mapped file (proc(5), maps) that are in memory: offset, length."""
    start, end = (int(word, 16) for word in line[0].split("-"))
    offset = int(line[2], 16)
    pagemap.seek(start // PAGE * 8)
    top = pagemap.read((end - start) // PAGE * 8)[7::8]
    found = []
    for at in range(0, len(top), STEP):
        if not any(byte & 0xC0 for byte in top[at : at + STEP]):
            continue
        here = offset + at * PAGE
        length = min(STEP, len(top) - at) * PAGE
        if found and sum(found[-1]) == here:
            found[-1][1] += length
        else:
            found.append([here, length])
    return found


def parts_mapped():
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb", 0) as pages:
        for line in maps.read().splitlines():
            words = line.split(None, 5)
            if len(words) == 6 and os.path.isfile(words[5]):
                for offset, length in parts_of(words, pages):
                    yield offset, length, words[5]


def files_imported():
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        for path in (getattr(spec, "cached", None), getattr(spec, "origin", None)):
            if path and path.endswith((".py", ".pyc")) and os.path.isfile(path):
                yield 0, os.path.getsize(path), path
                break


def write_list(to):
    """Whole or not at all; without it a cold start takes longer."""
    try:
        text = "".join("%d %d %s\n" % part for part in parts_mapped())
        text += "".join("%d %d %s\n" % part for part in files_imported())
        text = text.encode("utf-8", "surrogateescape")
        if len(text) > LIST_MAX or PAGE != os.sysconf("SC_PAGESIZE"):
            return
        os.makedirs(os.path.dirname(to), 0o700, exist_ok=True)
        # One name for all: what a full disk or a kill leaves is written over.
        half = to + ".new"
        with open(half, "wb") as file:
            file.write(text)
        os.replace(half, to)
    except (OSError, ValueError, TypeError):
        pass
