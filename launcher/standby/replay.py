# The second part of the standby's program: what is imported ahead (imports.py says by
# which rule), and what is watched meanwhile.

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


def left_behind(before, folder):
    """What there is now that was not there: a reason, or None."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return "starts a thread"
    opened = descriptors() - before
    if opened:
        return "opens " + sorted(opened)[0].split(" ", 1)[1]
    if shared_maps():
        return "maps shared memory"
    if os.getcwd() != folder:
        return "changes the working folder"
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return "starts a process"


class Watch:
    """While it is entered: which modules ask, as they are imported, for what differs
    between workers. These are variables of a place, bytes by chance (not those for
    uuid's names, which large packages draw) and with `apart` which CPUs there are."""

    # numpy.random has one generator, which is seeded anew; torch counts CPUs.
    HARMLESS = ("numpy.random", "torch.")
    KEYS = {name: name for name in PLACES}
    VALUE = "".join(["of a worker's", " place"])

    def __init__(self, apart):
        self.apart = apart
        self.bad = {}  # module: why
        self.ends = False  # nothing more is imported
        self.listed = []  # modules that went through all variables

    def blame(self, why, itself="site"):
        for name in in_progress() or [itself]:
            self.bad.setdefault(name, why)

    def __enter__(self):
        import gc  # noqa: F401 for look_for_kept
        import random

        environ = os.environ
        self.real = [
            (environ, name, getattr(environ, name))
            for name in ("encodekey", "decodekey", "decodevalue")
        ]
        encode, decode, decode_value = [real for _, _, real in self.real]
        value = encode(self.VALUE)

        def encodekey(key):
            mine = self.KEYS.get(key) if isinstance(key, str) else None
            if mine is not None and mine is not key:
                self.blame("reads " + key)
            return encode(key)

        def decodekey(key):
            name = decode(key)
            if name in self.KEYS:
                self.listed += in_progress() or ["site"]
            return self.KEYS.get(name, name)

        def decodevalue(each):
            return self.VALUE if each is value else decode_value(each)

        self.mine = [encode(name) for name in PLACES]
        environ._data.update((name, value) for name in self.mine)
        self.count = self.counted()
        environ.encodekey = encodekey
        environ.decodekey = decodekey
        environ.decodevalue = decodevalue
        self.watch_call(random, "_urandom", random._urandom)
        if self.apart:
            self.watch_call(os, "sched_getaffinity", os.sched_getaffinity)
        return self

    def watch_call(self, module, name, real):
        def call(*args):
            importing = in_progress()
            if importing and not importing[-1].startswith(self.HARMLESS):
                self.blame("calls os." + name.strip("_"))
            return real(*args)

        self.real.append((module, name, real))
        setattr(module, name, call)

    def __exit__(self, *_):
        for module, name, real in self.real:
            setattr(module, name, real)
        for name in self.mine:
            os.environ._data.pop(name, None)

    def counted(self):
        return [sys.getrefcount(each) for each in [*self.KEYS.values(), self.VALUE]]

    def look_for_kept(self):
        """Who went through all variables perhaps kept those of a place."""
        if self.listed:
            sys.modules["gc"].collect()
        before, self.count = self.count, self.counted()
        if any(now > was for now, was in zip(self.count, before)):
            for name in self.listed:
                self.bad.setdefault(name, "reads all variables")
        self.listed = []


class Record:
    """What the workers of the node have written, as the launcher hands it over: the
    variables that it gave them, then the lines of each worker."""

    def __init__(self, fd):
        os.lseek(fd, 0, os.SEEK_SET)
        with open(fd, "rb", closefd=False) as file:
            given, _, text = file.read().partition(b"\0\0")
        self.given = without_places(given.split(b"\0"))
        self.bad = set()
        self.only = None  # names, or all
        self.last = set()  # the first of these is not imported, nor what comes after
        workers = [[]]
        for line in text.decode("ascii", "replace").splitlines():
            line = self.parse(line)
            if line[0] == "bad":
                self.bad.add(line[1])
            elif line[0] == "until":
                self.last.add(line[1])
            elif line[0] == "only":
                self.only = set(line[1].split(","))
            elif line[0] == "worker":
                workers.append([])
            else:
                workers[-1].append(line)
        self.others = workers[1:]
        self.lines = self.until_last(self.until_sure(workers[0]))
        imports = [line for line in self.lines if line[0] == "import"]
        self.origins = {name: origin for _, name, origin in imports}
        self.states = {line[1] for line in self.lines if line[0] == "random"}

    @staticmethod
    def parse(text):
        from ast import literal_eval

        try:
            return literal_eval(text)
        except (SyntaxError, ValueError):  # half a line
            return ("",)

    @staticmethod
    def until_sure(lines):
        """Up to the end of the last import before which nothing was replaced."""
        end, is_sure = 0, False
        for at, line in enumerate(lines):
            if line[0] == "sure":
                is_sure = True
            elif line[0] == "done" and is_sure:
                end, is_sure = at + 1, False
        return lines if is_sure else lines[:end]

    def until_last(self, lines):
        for at, line in enumerate(lines):
            if line[0] == "import" and line[1] in self.last:
                return lines[:at]
        return lines

    def is_left_out(self, name):
        parts = name.split(".")
        return any(".".join(parts[: n + 1]) in self.bad for n in range(len(parts)))

    def is_wanted(self, name):
        return not self.is_left_out(name) and (self.only is None or name in self.only)

    def is_everyones(self, line):
        return all(line in lines for lines in self.others)


def without_places(entries):
    pairs = (entry.partition(b"=")[::2] for entry in entries if entry)
    return {key: value for key, value in pairs if os.fsdecode(key) not in PLACES}


class Replay:
    """Imports what a record says, in its order, and makes the changes between."""

    def __init__(self, record, watch):
        self.record = record
        self.watch = watch
        self.path = list(sys.path)  # but for the program's changes
        self.path_is_theirs = False
        self.written = {}  # variables that imports changed; None: they removed it
        self.changed = {}  # those of the program, so far in the record
        self.changed_path = None
        self.by_chance = {}  # id: a generator that each worker seeds anew
        self.sight = Sight()
        self.sight.refresh()
        self.look_at_generators("random")

    def run(self):
        for line in self.record.lines:
            if line[0] in ("env", "path") and not self.note(line):
                return
            if line[0] != "import" or line[1] in sys.modules:
                continue
            if not self.record.is_wanted(line[1]):
                continue
            if not self.make_changes():
                return
            if not self.do_import(line[1]):
                return

    def find_spec(self, name, path=None, target=None):
        """As the first of sys.meta_path: what the record says, where it says so."""
        spec = find_by_others(self, name, path, target)
        if spec is None or not is_to_be_imported():
            return spec
        origins = self.record.origins
        origin = spec.origin if spec.has_location else None
        is_left_out = self.record.is_left_out(name)
        if name in origins and origins[name] == origin and not is_left_out:
            return spec
        if is_left_out:
            why = "imports " + name + ", which is left out"
        elif not are_installed(spec):
            why = "imports " + name + ", which is not installed"
        elif name in origins:
            why = "imports another " + name
            self.watch.ends = True
        else:
            why = "imports " + name + ", which the first life did not"
        self.watch.blame(why, name)
        raise ModuleNotFoundError(name + " is not imported ahead", name=name)

    def note(self, line):
        """False: it is not the same for all workers."""
        if line[0] == "path":
            self.changed_path = line[1]
        elif line[1] in PLACES:
            return True
        else:
            self.changed[line[1]] = line[2]
        return self.record.is_everyones(line)

    def make_changes(self):
        """False: they cannot be told from what imports changed."""
        for key, value in self.changed.items():
            if os.environ.get(key) == value:
                continue
            if os.fsencode(key) in self.written:
                return False
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
        if self.changed_path not in (None, sys.path):
            if self.path_is_theirs:
                return False
            sys.path[:] = self.changed_path
        return True

    def do_import(self, name):
        """False: what comes after it is another thing than in the first life."""
        import importlib

        before = dict(os.environ._data), list(sys.path), descriptors(), os.getcwd()
        try:
            importlib.import_module(name)
        except BaseException:  # SystemExit, too: the program meets it itself
            pass
        self.watch.look_for_kept()
        why = left_behind(*before[2:])
        if why is not None:
            os.chdir(before[3])
        else:
            why = self.look_at_changes(*before[:2])
        self.sight.refresh()
        draws = self.look_at_generators(name)
        if why or draws:
            self.watch.bad.setdefault(name, draws or why)
        return why is None and not self.watch.ends

    def look_at_changes(self, environ, path):
        """By an import: why they cannot be kept, or None."""
        now = os.environ._data
        for key in environ.keys() | now.keys():
            if environ.get(key) != now.get(key):
                if os.fsdecode(key) in self.changed:
                    return "changes " + os.fsdecode(key) + " after the program"
                self.written[key] = now.get(key)
        if sys.path != path:
            if path != self.path:
                return "changes sys.path after the program"
            self.path = list(sys.path)
            self.path_is_theirs = True
        return None

    def look_at_random(self):
        """All is imported: random's own generator has a constant seed of an import, or
        one by chance, also where the interpreter has drawn of it before."""
        generator = sys.modules["random"]._inst
        if self.sight.generators.digest(generator) not in self.record.states:
            self.by_chance[id(generator)] = generator

    def look_at_generators(self, name):
        for generator, state in self.sight.generators.changed():
            if state in self.record.states:
                self.by_chance.pop(id(generator), None)
            elif is_as_seeded(generator):
                self.by_chance[id(generator)] = generator
            else:
                return "draws random numbers"
        return None


def is_as_seeded(generator):
    """One that is seeded by chance as it is made, of which nobody has drawn."""
    if type(generator).__name__ == "Random":
        return generator.getstate()[1][-1] == 624 and generator.getstate()[2] is None
    if type(generator).__name__ == "RandomState":
        return generator.get_state()[2] >= 623
    if type(generator).__module__ == "torch._C":
        return generator.get_state()[8:12].tolist() == [1, 0, 0, 0]  # what is left
    return False
