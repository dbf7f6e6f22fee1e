# The Python half of the standby (launcher/standby/standby.h): run by the job's
# own interpreter as `python FLAGS -c THIS WHAT ...`, where THIS is imports.py and
# then this.
#
#   import CHANNEL NAMES AGENT PLACES APART LIST KIND WORDS ARGV...
#       imports the modules that the file of descriptor NAMES lists, says so on
#       the socket CHANNEL, and forks a standby for each message that comes. A
#       standby waits for its order and then runs the program as __main__. What
#       the imports read is written to the file LIST ("": none), for prefetch.h.
#
#   learn MEMORY KIND WORDS ARGV...
#       runs the program at once, and writes down what it imports: names with a
#       newline behind each, into the file of path MEMORY, until its first byte
#       is set.
#
# An importer must import only. A module is left out if its import reads a variable
# of a worker's place (PLACES), draws random bytes or, if APART is "apart", asks for
# its CPUs, needs a module of the user's own, starts a thread or a process, or leaves
# a descriptor or shared memory behind: in a fresh start each worker would have its
# own. What was half imported cannot be undone, so the name is added to the list as
# "-NAME" and this program is executed again. What is below a package that is left
# out is left out as well.
#
# What learns is a worker: nothing here may keep the program from its start, so
# what it uses is there in Python 3.6.
import os
import sys

TRIES = 12
TRIED = b"DDPRUN_STANDBY_TRIES"  # how often
NAMES_MAX = 4000
MINE = globals()
ITSELF = sys.modules["__main__"]


# -- the program ---------------------------------------------------------------


def prepare_main(kind, argv):
    """A __main__ as a fresh interpreter has it before the program's code."""
    import builtins
    from importlib.machinery import BuiltinImporter, SourceFileLoader

    main = type(sys)("__main__")
    main.__loader__ = BuiltinImporter
    if "__annotations__" in ITSELF.__dict__:
        main.__annotations__ = {}
    main.__builtins__ = builtins
    if kind == "script":
        path = argv[0]
        if sys.version_info >= (3, 9):
            path = os.path.join(os.getcwd(), path)
        main.__file__ = path
        main.__cached__ = None
        main.__loader__ = SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    sys.argv[:] = ["-m"] + argv[1:] if kind == "module" else argv
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        folder = os.path.dirname(os.path.realpath(argv[0]))
        sys.path[0] = os.getcwd() if kind == "module" else folder
    return main


def without_runner(kind, value, trace):
    """As sys.excepthook: the traceback begins with the program's first frame."""
    sys.excepthook = without_runner.hook
    while trace is not None and trace.tb_frame.f_globals is MINE:
        trace = trace.tb_next
    sys.excepthook(kind, value.with_traceback(trace), trace)


def run(kind, main, name):
    try:
        if kind == "script":
            import io

            with getattr(io, "open_code", io.FileIO)(main.__file__) as file:
                source = file.read()
            code = compile(source, main.__file__, "exec", dont_inherit=True)
            del source, file
            exec(code, main.__dict__)
        else:
            import runpy

            runpy._run_module_as_main(name)
    except SystemExit:
        raise
    except BaseException:
        without_runner.hook = sys.excepthook
        sys.excepthook = without_runner
        raise


# -- the standby ---------------------------------------------------------------


def set_command_line(argv):
    """What ps(1) shows: written over our own, which is longer."""
    try:
        import ctypes
    except ImportError:  # a small Python
        return
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(word) for word in argv) + b"\0"
    if 0 < len(text) < end - start:
        ctypes.memmove(start, text + bytes(end - start - len(text)), end - start)


def set_arguments(kind, words, argv, itself):
    """All that names the program as a fresh start does; returns its name."""
    import importlib

    argv[0] = os.fsdecode(itself[0])
    set_command_line(argv)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv
    program = argv[words:]
    sys.argv[:] = ["-m"] + program[1:] if kind == "module" else program
    importlib.invalidate_caches()
    return program[0]


def renew_stream(name, fd, mode):
    """The same object on what its descriptor is now, as a fresh one would be."""
    stream = getattr(sys, name)
    if stream is None:
        return
    unbuffered = stream.write_through
    encoding, errors = stream.encoding, stream.errors
    binary = open(fd, mode + "b", 0 if unbuffered and mode == "w" else -1, closefd=False)
    raw = getattr(binary, "raw", binary)
    raw.name = "<" + name + ">"
    lines = not unbuffered and (raw.isatty() or name == "stderr")
    stream.__init__(
        binary,
        encoding,
        errors,
        newline="\n",
        line_buffering=lines,
        write_through=unbuffered,
    )
    stream.mode = mode


def renew_secrets(seeds):
    """What an import made by chance, and each worker must have for itself."""
    seeds.renew()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(
            os.urandom(32)
        )
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def set_environment(entries, watch, before):
    """These and no others, in this order, but for what a wrapper around Python or
    the interpreter itself changed (`before` any import), and imports wrote."""
    os.environ.__class__ = type(os.environ).__mro__[1]
    fresh = dict(entry.partition(b"=")[::2] for entry in entries)
    for key in [key for key in fresh if key not in before]:
        if os.fsdecode(key) not in watch.places:
            del fresh[key]
    fresh.update(before)
    for key in [key for key in os.environb if key not in fresh]:
        del os.environb[key]
    os.environ._data.clear()
    for key, value in fresh.items():
        os.environb[key] = value
    for key, value in watch.written.items():
        if value is not None:
            os.environ[key] = value
        else:
            os.environ.pop(key, None)


def receive(channel, count):
    """A message's descriptors; None if the other end is closed."""
    import _socket

    data, control, _, _ = channel.recvmsg(64, _socket.CMSG_SPACE(4 * count))
    fds = []
    for _level, _kind, body in control:
        fds += [
            int.from_bytes(body[at : at + 4], sys.byteorder)
            for at in range(0, len(body) - len(body) % 4, 4)
        ]
    return (data, fds) if data else (None, fds)


def prctl(option, value):
    import ctypes

    return ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def become_child_of(agent):
    """Dies with the agent, whose child it is once the one between has ended."""
    import time

    for _ in range(5000):
        if os.getppid() == agent:
            break
        time.sleep(0.001)
    prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
    return os.getppid() == agent


def wait_for_order(fd, agent):
    """Returns the socket and the descriptors of the order; ends without one."""
    import _socket

    channel = _socket.socket(fileno=fd)
    if not become_child_of(agent) or not set_idle(False):
        os._exit(0)
    channel.send(b"r")
    data, fds = receive(channel, 4)
    if data is None or len(fds) != 4:
        os._exit(0)
    return channel, fds


def set_cpus(text):
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:  # they went offline: as in a fresh start
        pass


def take_place(fds, agent, score, watch, seeds, before):
    """Becomes what the order says; returns the argv."""
    with open(fds[0], "rb") as file:
        file.seek(0)
        fields = file.read().split(b"\0")
    watched, n_argv = int(fields[0]), int(fields[2])
    os.setsid()
    if fields[1]:
        set_cpus(fields[1].decode())
    if watched:
        prctl(0x59616D61, agent)  # PR_SET_PTRACER
    for stream in range(3):
        os.dup2(fds[1 + stream], stream)
        os.close(fds[1 + stream])
    set_score(score)
    set_environment(fields[3 + n_argv : -1], watch, before)
    renew_stream("stdin", 0, "r")
    renew_stream("stdout", 1, "w")
    renew_stream("stderr", 2, "w")
    renew_secrets(seeds)
    return [os.fsdecode(word) for word in fields[3 : 3 + n_argv]]


def stand_by(fd, agent, score, watch, seeds, before, kind, words, itself):
    """Waits for its order and obeys; returns the program's name. Until the answer
    nothing is lost: the worker is started afresh."""
    import gc

    try:
        channel, fds = wait_for_order(fd, agent)
        argv = take_place(fds, agent, score, watch, seeds, before)
        program = set_arguments(kind, words, argv, itself)
        gc.enable()
        channel.send(b"k")
        channel.close()
        return program
    except BaseException:
        os._exit(1)


# -- the importer --------------------------------------------------------------


def set_idle(idle):
    """Only if there is a way back: sched(7), RLIMIT_NICE."""
    try:
        if not idle:
            if os.sched_getscheduler(0) == os.SCHED_IDLE:
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            return True
        with open("/proc/self/status") as file:
            caps = [line for line in file if line.startswith("CapEff")]
        if int(caps[0].split()[1], 16) >> 23 & 1:  # CAP_SYS_NICE
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return True
    except OSError:
        return idle


def set_score(score):
    """Returns the one before. The kernel shall take what only waits first."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            before = file.read().strip()
            file.seek(0)
            file.write(score)
        return before
    except OSError:
        return score


def is_below(name, bad):
    parts = name.split(".")
    return any(".".join(parts[: n + 1]) in bad for n in range(len(parts)))


def read_names(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, closefd=False) as file:
        lines = file.read().split("\n")
    bad = {line[1:] for line in lines if line.startswith("-")}
    names = [line for line in lines if line and line[0] != "-"]
    return [name for name in dict.fromkeys(names) if not is_below(name, bad)], bad


def tries():
    return int(os.environb.get(TRIED, b"0"))


def is_too_much(bad, known):
    return len(known) > NAMES_MAX or known.issuperset(bad) or tries() >= TRIES


def add_bad(names_fd, bad):
    os.lseek(names_fd, 0, os.SEEK_END)
    for name in bad:
        os.write(names_fd, b"\n-" + os.fsencode(name))


def end_children():
    """Those that an import started: they would be children of what comes."""
    for name in os.listdir("/proc"):
        try:
            with open("/proc/" + name + "/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if name.isdigit() and parent == os.getpid():
                os.kill(int(name), 9)
                os.waitpid(int(name), 0)
        except (OSError, IndexError, ValueError):
            continue  # it is gone, or is no process


def first_of(bad):
    name = next(iter(bad))
    return os.fsencode(name + " " + bad[name])


def fork_ahead(channel):
    """Returns in each standby, with its socket; ends with the channel."""
    while True:
        data, fds = receive(channel, 1)
        if data is None or len(fds) != 1:
            os._exit(0)
        middle = os.fork()
        if middle == 0:
            if os.fork() != 0:
                os._exit(0)
            channel.close()
            return fds[0]
        os.close(fds[0])
        os.waitpid(middle, 0)


def be_importer(channel_fd, names_fd, agent, places, apart, to, kind, words, argv):
    import _ctypes  # noqa: F401 now, so that a standby need not
    import _socket
    import ctypes  # noqa: F401
    import gc
    import io  # noqa: F401
    import runpy  # noqa: F401
    import time  # noqa: F401

    before = dict(os.environb)
    before.pop(TRIED, None)
    itself = command_line()
    set_command_line(itself[:1] + [b"(imports ahead for ddprun)"])
    channel = _socket.socket(fileno=channel_fd)
    if sys.version_info < (3, 9):
        channel.send(b"this Python is older than 3.9")
        os._exit(0)
    score = set_score("1000")
    set_idle(True)
    program = argv[words:]
    main = prepare_main(kind, program)
    watch = Watch(places.split(","))
    names, known = read_names(names_fd)
    guard = Guard(watch)
    sys.meta_path.insert(0, guard)
    os.environ.__class__ = watched_environ(watch)
    seeds = Seeds()
    with Asked(watch, apart == "apart"), seeds:
        import_all(names, watch)
    sys.meta_path.remove(guard)
    if watch.bad:
        if not is_too_much(watch.bad, known):
            add_bad(names_fd, watch.bad)
            before[TRIED] = b"%d" % (tries() + 1)
            set_idle(False)
            set_score(score)
            end_children()
            os.execve(sys.executable, itself, before)
        channel.send(b"the imports do more than import: " + first_of(watch.bad))
        os._exit(0)
    os.close(names_fd)
    gc.collect()
    gc.disable()  # it would write to memory that all share ...
    gc.freeze()  # ... and so would the workers' own collections
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    channel.send(
        b"ready %d %d %d"
        % (sum(n in sys.modules for n in names), len(known), pages * 4)
    )
    if to:
        write_list(to)
    fd = fork_ahead(channel)
    program = stand_by(fd, agent, score, watch, seeds, before, kind, words, itself)
    run(kind, main, program)


def command_line():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().split(b"\0")[:-1]


def be_learner(path, kind, words, argv):
    try:
        import mmap

        with open(path, "r+b") as file:
            sys.meta_path.insert(0, Recorder(mmap.mmap(file.fileno(), 0)))
    except (ImportError, OSError):  # then nothing is learnt
        pass
    program = argv[words:]
    main = prepare_main(kind, program)
    run(kind, main, set_arguments(kind, words, argv, command_line()))


if sys.argv[1] == "import":
    be_importer(
        int(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        sys.argv[5],
        sys.argv[6],
        sys.argv[7],
        sys.argv[8],
        int(sys.argv[9]),
        sys.argv[10:],
    )
else:
    be_learner(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5:])
