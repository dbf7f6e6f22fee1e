# The first part of the standby's program: the record of what a worker imports. Behind it
# come replay.py, which imports that ahead, and runner.py.
#
# What is imported ahead must mean what it means in the program's own order. So the
# first life of each worker is recorded (Recorder): in their order each import with
# the file that it came from, and each change that was made meanwhile of os.environ
# and sys.path. What else the program does to its imports ends the record: another
# folder, an entry of sys.modules that it sets or removes, a function or a class of a
# module that it replaces.
#
# The importer replays the record (Replay): it makes the changes and the imports
# in their order, as far as that gives the same. It ends where a file would come from
# another place, where an import and the program have changed the same variable, and
# where the workers of the node have not all made the same change.
#
# Variables of a worker's place (PLACES) are not there in the importer. A module whose
# import asks for one, by its name or by going through all and keeping one, is left
# out (Watch): os.environ asks two functions for each key, and these tell us while
# the importer imports. Which module would have got a wrong value need not be known,
# so no value is followed; and as all that asks is left out, a program may set these
# variables to whatever it likes between its imports. The interpreter's own start
# (sitecustomize, .pth files) is watched in the same way, once, in an interpreter
# started with -S; it cannot be left out, so then there are no standbys.
#
# Generators of random numbers: the state that an import leaves is right if it is that
# of the first life, as with a constant seed. Else the seed was drawn by chance, or
# made of the clock or the process. If nothing was drawn of it yet each worker seeds it
# anew; else the module is left out.
import os
import sys
import time

PLACES = frozenset(
    "RANK WORLD_SIZE LOCAL_RANK DDP_LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK"
    " GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE MASTER_ADDR MASTER_PORT"
    " TORCHELASTIC_RESTART_COUNT TORCHELASTIC_ERROR_FILE DDP_INSTANCE DDP_EPOCH"
    " DDP_ROUND DDP_ROUND_KEY TRACEPARENT DDP_PROGRESS_FILE DDP_STOP_FILE DDP_SNAPSHOT_MEMORY"
    " TORCH_NCCL_DEBUG_INFO_PIPE_FILE TORCH_FR_DUMP_TEMP_FILE"
    " TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    # A GPU's library reads these as it is initialised, which no import may do.
    " CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES".split()
)
IMPORTLIB = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def is_installed(path):
    parts = path.split(os.sep)
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or path.startswith(os.path.dirname(os.__file__) + os.sep)
        or path.startswith("<frozen ")
    )


def places_of(spec):
    """The files of a module, or the folders of one that has none."""
    if spec.has_location and spec.origin:
        return [spec.origin]
    return list(spec.submodule_search_locations or [])


def are_installed(spec):
    return all(is_installed(place) for place in places_of(spec))


def find_by_others(finder, name, path, target):
    for other in sys.meta_path:
        find = getattr(other, "find_spec", None)
        spec = find(name, path, target) if find and other is not finder else None
        if spec is not None:
            return spec
    return None


def is_to_be_imported():
    """What the finder that calls this looks for; importlib.util.find_spec looks, too."""
    return sys._getframe(3).f_code.co_name == "_find_and_load_unlocked"


def in_progress():
    """The modules whose import has begun and is not over, outermost first."""
    found = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if getattr(spec, "_initializing", False):
            found.append(name)
    return found


# -- what imports and the program have changed ----------------------------------


class Generators:
    """Those of random, numpy and torch that modules have as attributes, or that are
    attributes of a module's own classes and objects."""

    KINDS = (
        ("random", "Random"),
        ("numpy.random.mtrand", "RandomState"),
        ("numpy.random._generator", "Generator"),
        ("torch._C", "Generator"),
    )
    # tempfile makes another one after a fork; sympy draws where it begins to number
    # what is told apart within a process.
    HARMLESS = ("tempfile", "sympy.core.symbol")

    def __init__(self):
        self.states = {}  # id of a generator: itself and a digest

    def kinds(self):
        found = [getattr(sys.modules.get(m), name, None) for m, name in self.KINDS]
        return tuple(kind for kind in found if kind is not None)

    def digest(self, generator):
        import _imp

        if hasattr(generator, "getstate"):
            state = generator.getstate()
        elif hasattr(generator, "bit_generator"):
            state = generator.bit_generator.state
        else:
            state = generator.get_state()
        if hasattr(state, "tolist"):
            state = state.tolist()
        elif type(state) is tuple:
            state = [getattr(part, "tolist", part.__repr__)() for part in state]
        return _imp.source_hash(1, repr(state).encode()).hex()

    def look_into(self, name, names):
        if name in self.HARMLESS:
            return
        kinds = self.kinds()
        for value in list(names.values()):
            inside = ()
            if issubclass(type(value), kinds):
                inside = (value,)
            elif self.is_of(value if type(value) is type else type(value), name):
                try:
                    inside = list(object.__getattribute__(value, "__dict__").values())
                except AttributeError:
                    continue
            for each in inside:
                if issubclass(type(each), kinds):
                    self.states.setdefault(id(each), (each, None))

    @staticmethod
    def is_of(kind, name):
        return type(kind) is type and kind.__dict__.get("__module__") == name

    def changed(self):
        """Each with the digest of its state, if that is new since the last call."""
        found = []
        for key, (generator, before) in list(self.states.items()):
            try:
                now = self.digest(generator)
            except (NotImplementedError, RuntimeError):  # SystemRandom, of a GPU
                continue
            if now != before:
                self.states[key] = generator, now
                found.append((generator, now))
        return found


class Sight:
    """The modules as the last import left them. sys.excepthook and the like are for
    what comes later; no import depends on them."""

    SHARE = 0.05  # of CPU time goes into looking at functions, and FREE seconds
    FREE = 0.02
    KINDS = (type(is_installed), type(len), type)  # functions and classes

    def __init__(self):
        self.folder = os.getcwd()
        self.modules = {}
        self.own = {"__main__": None, "__mp_main__": None}  # the program's
        self.seen = []  # a module's dict, names of functions and classes, and these
        self.generators = Generators()
        self.began = time.process_time()
        self.spent = 0

    def refresh(self, is_sure=False):
        """An import is over. Is it sure that nothing was replaced before it, what is
        replaced now was replaced by the import: a replay does that, too."""
        began = time.process_time()
        if is_sure:
            for names, keys, values in self.seen:
                values[:] = map(names.get, keys)
            self.spent += time.process_time() - began
        for name, module in list(sys.modules.items()):
            if self.modules.get(name, self.own) is module or name in self.own:
                continue
            spec = getattr(module, "__spec__", None)
            if spec is not None and not are_installed(spec):
                self.own[name] = module
                continue
            self.modules[name] = module
            names = getattr(module, "__dict__", None)
            if type(names) is dict:
                keys = [
                    key
                    for key, value in names.items()
                    if type(value) in self.KINDS and not key.endswith("hook")
                ]
                self.seen.append((names, keys, [names[key] for key in keys]))
                self.generators.look_into(name, names)

    def is_changed(self):
        """By the program: what no replay of imports would give."""
        if os.getcwd() != self.folder:
            return True
        for name, module in self.modules.items():
            if sys.modules.get(name, self) is not module:
                return True
        for name in sys.modules.keys() - self.modules.keys() - self.own.keys():
            if getattr(sys.modules[name], "__spec__", None) is None:
                return True
        return False

    def is_replaced(self):
        """The same of functions and classes; None: it is too early to look again."""
        began = time.process_time()
        if self.spent > self.FREE + self.SHARE * (began - self.began):
            return None
        for names, keys, values in self.seen:
            for key, value in zip(keys, values):
                if names.get(key) is not value:
                    return True
        self.spent += time.process_time() - began
        return False


# -- the first life --------------------------------------------------------------


class Loader:
    """Executes a module that the program imports, and tells when that is over. While
    it is executed the module has its own loader, and so has the program's trace."""

    def __init__(self, recorder, spec, is_sure):
        self.recorder = recorder
        self.spec = spec
        self.is_sure = is_sure
        self.real = spec.loader

    def __getattr__(self, name):
        return getattr(self.real, name)

    def create_module(self, spec):
        return self.real.create_module(spec)

    def exec_module(self, module):
        self.spec.loader = module.__loader__ = self.real
        try:
            self.real.exec_module(module)
            self.recorder.imported(self.is_sure)
        finally:
            self.recorder.write("done")
            self.recorder.flush()

    # So that importlib leaves it out of tracebacks, as its own frames.
    exec_module.__code__ = exec_module.__code__.replace(co_filename=IMPORTLIB[0])


class Recorder:
    """First of sys.meta_path: writes a line for each import and each change."""

    def __init__(self, path):
        self.file = path  # which the launcher reads
        self.lines = b""  # that are not in it yet
        self.pid = os.getpid()  # a child that it forks has another program
        self.at = 1
        self.environ = dict(os.environ)
        self.path = list(sys.path)
        self.sight = Sight()
        self.sight.refresh()
        self.write_random()
        self.waits_for_step = True

    def is_over(self):
        return self.sight is None or os.getpid() != self.pid

    def write(self, *line):
        self.lines += ascii(line).encode() + b"\n"

    def flush(self):
        """No descriptor is kept open: the program would see it."""
        if self.is_over():
            return
        try:
            fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # the launcher is gone
            self.end()
            return
        end = self.at + len(self.lines)
        if os.pread(fd, 1, 0) != b"\0" or end > os.fstat(fd).st_size:
            self.end()
        else:
            os.pwrite(fd, self.lines, self.at)
            self.at = end
        self.lines = b""
        os.close(fd)

    def end(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self.sight = None

    def is_by_program(self):
        """No installed module is being executed that asks for this one."""
        frame = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>" and is_installed(code.co_filename):
                if frame.f_globals.get("__name__") != "__main__":
                    return False
            frame = frame.f_back
        return True

    def write_random(self):
        for _, state in self.sight.generators.changed():
            self.write("random", state)

    def changes(self):
        """Lines for variables and the path that are not as before."""
        now = dict(os.environ)
        if now != self.environ:
            for key in self.environ.keys() - now.keys():
                self.write("env", key, None)
            for key, value in now.items():
                if self.environ.get(key) != value:
                    self.write("env", key, value)
            self.environ = now
        if sys.path != self.path:
            self.path = list(sys.path)
            self.write("path", [str(each) for each in self.path])

    def find_spec(self, name, path=None, target=None):
        spec = find_by_others(self, name, path, target)
        if self.is_over() or spec is None or not is_to_be_imported():
            return spec
        by_program = self.is_by_program()
        if by_program and self.sight.is_changed():
            self.end()
        elif are_installed(spec):
            self.record(name, spec, by_program)
        return spec

    def record(self, name, spec, by_program):
        self.changes()
        if by_program:
            replaced = self.sight.is_replaced()
            if replaced:
                self.end()
                return
            self.sight.generators.changed()  # by the program
            if replaced is False:
                self.write("sure")
            if hasattr(spec.loader, "exec_module"):
                spec.loader = Loader(self, spec, replaced is False)
        self.write("import", name, spec.origin if spec.has_location else None)
        if by_program:
            self.flush()

    def imported(self, is_sure):
        if self.is_over():
            return
        self.sight.refresh(is_sure)
        self.write_random()
        self.changes()
        self.look_for_optimizers()

    def look_for_optimizers(self):
        """The first step of one says that the program has begun."""
        torch = sys.modules.get("torch.optim.optimizer")
        register = getattr(torch, "register_optimizer_step_post_hook", None)
        if self.waits_for_step and register is not None:
            self.waits_for_step = False
            self.handle = register(self.on_step)

    def on_step(self, *_):
        self.handle.remove()
        if not self.is_over():
            if self.sight.is_replaced() is False:
                self.write("sure")
            self.write("complete")
            self.flush()
            self.end()
