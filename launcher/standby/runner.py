# The Python half of the standby (launcher/standby/standby.h): start.py executes this
# in the job's own interpreter, behind the other two, as
#
#   python FLAGS -S -c START THIS probe CHANNEL NAMES AGENT APART KIND WORDS ARGV...
#       looks whether the interpreter's own start asks for a worker's place; if so it
#       says so on the socket CHANNEL, else it executes the next one. NAMES is the
#       descriptor of a file with what the workers recorded (replay.py, Record).
#
#   python FLAGS -c START THIS import CHANNEL NAMES AGENT APART KIND WORDS ARGV...
#       imports what was recorded, says so on CHANNEL, and forks a standby for each
#       message that comes. A standby waits for its order and then runs the program
#       as __main__.
#
#   python FLAGS -c START THIS learn MEMORY KIND WORDS ARGV...
#       runs the program at once, and records what it imports in the file of path
#       MEMORY, until its first byte is set.
#
# An importer must import only. A module is left out if its import asks for what
# differs between workers (Watch), needs a module of the user's own, starts a thread or
# a process, or leaves a descriptor or shared memory behind: in a fresh start each
# worker would have its own. What was half imported cannot be undone, so the name is
# added to the file and this program is executed again. What is below a package that
# is left out is left out as well.
import os
import sys
import time

STOP_PAGE, LIFE_AT = 128, 64  # bytes, as in rendezvous/base/stop_page.h
TRIES = 12
TRIED = b"DDPRUN_STANDBY_TRIES"  # how often
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
    buffering = 0 if unbuffered and mode == "w" else -1
    binary = open(fd, mode + "b", buffering, closefd=False)
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


def renew_secrets(replay):
    """What an import made by chance, and each worker must have for itself. A fork
    has seeded random's own generator, so that has its state again."""
    import random

    random.setstate(replay.state)
    for generator in replay.by_chance.values():
        generator.seed()
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(
            os.urandom(32)
        )


def set_environment(entries, replay, started):
    """These and no others, in this order, but for what a wrapper around Python or
    the interpreter itself changed (`started` has it), and imports wrote."""
    fresh = dict(entry.partition(b"=")[::2] for entry in entries)
    for key in [key for key in fresh if key not in started]:
        if os.fsdecode(key) not in PLACES:
            del fresh[key]
    fresh.update(started)
    for key in [key for key in os.environb if key not in fresh]:
        del os.environb[key]
    os.environ._data.clear()
    for key, value in fresh.items():
        os.environb[key] = value
    for key, value in replay.written.items():
        if value is not None:
            os.environb[key] = value
        else:
            os.environb.pop(key, None)


def refuse_another(entries, given, channel):
    """The imports may have read any variable: it must be as it was for them."""
    now = without_places(entries)
    for key in sorted(now.keys() | given.keys()):
        if now.get(key) != given.get(key):
            channel.send(b"d" + key[:200])
            os._exit(0)


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


def map_stop_page(ctypes, libc):
    """Its address, which stays; None: it cannot be had."""
    fd = os.open(os.environ["DDP_STOP_FILE"], os.O_RDWR | os.O_CLOEXEC)
    try:
        link = os.readlink("/proc/self/fd/%d" % fd)
        if not link.startswith("/memfd:ddprun-stop"):
            return None  # another process has the launcher's number here
        libc.mmap.restype = ctypes.c_void_p
        page = int(os.environ["DDP_LOCAL_RANK"]) * os.sysconf("SC_PAGESIZE")
        if os.fstat(fd).st_size < page + STOP_PAGE:
            return None
        at = libc.mmap(None, ctypes.c_size_t(STOP_PAGE), 3, 1, fd, ctypes.c_long(page))
        return None if at == ctypes.c_void_p(-1).value else at
    finally:
        os.close(fd)


def sign_death():
    """Has the kernel tell the launcher at once that this process ends: its main
    thread holds a robust mutex (rendezvous/base/stop_page.h)."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        at = map_stop_page(ctypes, libc)
    except (ImportError, KeyError, OSError, ValueError):
        return
    if at is None:
        return
    life = ctypes.c_void_p(at + LIFE_AT)
    attr = ctypes.create_string_buffer(64)
    libc.pthread_mutexattr_init(attr)
    libc.pthread_mutexattr_setpshared(attr, 1)
    libc.pthread_mutexattr_setrobust(attr, 1)
    if libc.pthread_mutex_init(life, attr) == 0:
        libc.pthread_mutex_lock(life)


def become_child_of(agent):
    """Dies with the agent, whose child it is once the one between has ended."""
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
    if not become_child_of(agent):
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


def take_place(channel, fds, agent, score, replay, started):
    """Becomes what the order says; returns the argv."""
    with open(fds[0], "rb") as file:
        file.seek(0)
        fields = file.read().split(b"\0")
    watched, n_argv = int(fields[0]), int(fields[2])
    refuse_another(fields[3 + n_argv : -1], replay.record.given, channel)
    os.setsid()
    if fields[1]:
        set_cpus(fields[1].decode())
    if watched:
        prctl(0x59616D61, agent)  # PR_SET_PTRACER
    for stream in range(3):
        os.dup2(fds[1 + stream], stream)
        os.close(fds[1 + stream])
    set_score(score)
    set_environment(fields[3 + n_argv : -1], replay, started)
    sys.path[:] = replay.path
    renew_stream("stdin", 0, "r")
    renew_stream("stdout", 1, "w")
    renew_stream("stderr", 2, "w")
    renew_secrets(replay)
    return [os.fsdecode(word) for word in fields[3 : 3 + n_argv]]


def stand_by(fd, agent, score, replay, started, kind, words, itself):
    """Waits for its order and obeys; returns the program's name. Until the answer
    nothing is lost: the worker is started afresh."""
    import gc

    try:
        channel, fds = wait_for_order(fd, agent)
        argv = take_place(channel, fds, agent, score, replay, started)
        program = set_arguments(kind, words, argv, itself)
        sign_death()
        gc.enable()
        channel.send(b"k")
        channel.close()
        return program
    except BaseException:
        os._exit(1)


# -- the importer --------------------------------------------------------------


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


def tries():
    return int(os.environb.get(TRIED, b"0"))


def add_to_record(names_fd, watch):
    """In the last try what cannot be imported ahead ends the record."""
    os.lseek(names_fd, 0, os.SEEK_END)
    for name in watch.bad:
        kind = "until" if watch.ends or tries() == TRIES - 1 else "bad"
        os.write(names_fd, ascii((kind, name)).encode() + b"\n")


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


def own_environ():
    """What this process was given, before anything in it changed that."""
    with open("/proc/self/environ", "rb") as file:
        return file.read().split(b"\0")[:-1]


def probe(channel_fd, argv, apart):
    """The interpreter's own start (site) is the first import. Executes the importer
    if it asks for nothing that differs between workers."""
    before = descriptors(), os.getcwd()
    environ = without_places(own_environ())
    for name in PLACES:
        os.environ.pop(name, None)
    with Watch(apart) as watch:
        import site

        site.main()
        watch.look_for_kept()
    why = left_behind(*before)
    if why is not None:
        watch.bad.setdefault("site", why)
    if watch.bad:
        why = b"as Python starts, " + first_of(watch.bad)
        os.write(channel_fd, why)
        os._exit(0)
    itself = command_line()
    at = len(itself) - len(argv)
    itself[at] = b"import"
    del itself[at - 4]  # -S
    os.execve(sys.executable, itself, environ)


def import_again(replay, names_fd, score, itself, environ):
    """Without what must not be imported ahead; returns a reason why not."""
    watch = replay.watch
    known = replay.record.bad | replay.record.last
    if known.issuperset(watch.bad) or tries() >= TRIES:
        return b"the imports do more than import: " + first_of(watch.bad)
    add_to_record(names_fd, watch)
    environ[TRIED] = b"%d" % (tries() + 1)
    set_score(score)
    end_children()
    os.execve(sys.executable, itself, environ)


def import_recorded(names_fd, apart):
    record = Record(names_fd)
    watch = Watch(apart)
    replay = Replay(record, watch)
    with watch:
        sys.meta_path.insert(0, replay)
        replay.run()
    sys.meta_path.remove(replay)
    replay.look_at_random()
    replay.sight = None
    replay.state = sys.modules["random"].getstate()
    return replay


def be_importer(channel_fd, names_fd, agent, apart, kind, words, argv):
    import _ctypes  # noqa: F401 now, so that a standby need not
    import _socket
    import ctypes  # noqa: F401
    import gc
    import io  # noqa: F401
    import runpy  # noqa: F401

    started = dict(os.environb)
    started.pop(TRIED, None)
    itself = command_line()
    set_command_line(itself[:1] + [b"(imports ahead for ddprun)"])
    channel = _socket.socket(fileno=channel_fd)
    score = set_score("1000")
    program = argv[words:]
    main = prepare_main(kind, program)
    replay = import_recorded(names_fd, apart)
    if replay.watch.bad:
        environ = dict(entry.partition(b"=")[::2] for entry in own_environ())
        channel.send(import_again(replay, names_fd, score, itself, environ))
        os._exit(0)
    os.close(names_fd)
    names = [name for name in replay.record.origins if replay.record.is_wanted(name)]
    left_out = len(replay.record.bad | replay.record.last)
    ready = sum(name in sys.modules for name in names), left_out
    gc.collect()
    gc.disable()  # it would write to memory that all share ...
    gc.freeze()  # ... and so would the workers' own collections
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    channel.send(b"ready %d %d %d" % (*ready, pages * 4))
    fd = fork_ahead(channel)
    program = stand_by(fd, agent, score, replay, started, kind, words, itself)
    run(kind, main, program)


def command_line():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().split(b"\0")[:-1]


def be_learner(path, kind, words, argv):
    program = argv[words:]
    main = prepare_main(kind, program)
    program = set_arguments(kind, words, argv, command_line())
    sign_death()
    sys.meta_path.insert(0, Recorder(path))
    run(kind, main, program)


def begin(what, *words):
    if what == "learn":
        be_learner(words[0], words[1], int(words[2]), list(words[3:]))
    elif what == "probe":
        probe(int(words[0]), sys.argv[1:], words[3] == "apart")
    else:
        channel, names, agent = (int(word) for word in words[:3])
        apart, kind, count = words[3] == "apart", words[4], int(words[5])
        be_importer(channel, names, agent, apart, kind, count, list(words[6:]))


begin(*sys.argv[1:])
