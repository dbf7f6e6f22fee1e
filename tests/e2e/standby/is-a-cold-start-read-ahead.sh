#!/bin/sh
# A launch writes down which files its imports read. The next one has the kernel read
# them before its workers need them: here a module that is no longer in the page
# cache, and that nobody imports in the second launch.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cat >resident.py <<'END'
import ctypes, mmap, os, time

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p


def share(path):
    """How much of a file is in the page cache, of 1."""
    fd = os.open(path, os.O_RDONLY)
    size = ctypes.c_size_t(os.fstat(fd).st_size)
    at = ctypes.c_void_p(libc.mmap(None, size, 1, 1, fd, ctypes.c_long(0)))
    there = ctypes.create_string_buffer(-(-size.value // mmap.PAGESIZE))
    assert libc.mincore(at, size, there) == 0
    libc.munmap(at, size)
    os.close(fd)
    return sum(byte & 1 for byte in there.raw[:-1]) / (len(there) - 1)


def evict(path):
    """Whether it could be; a page that somebody looks at just then stays."""
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    until = time.monotonic() + 5
    while share(path) > 0 and time.monotonic() < until:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        time.sleep(0.02)
    os.close(fd)
    return share(path) == 0
END
cat >program.py <<'END'
import glob, os, sys, time
import resident, standbys
if sys.argv[1] == "imports":
    import large
    standbys.wait(1)
    found = []
    while not found:  # ends with the scenario's limit
        found = glob.glob(os.environ["XDG_CACHE_HOME"] + "/ddprun/files-????????????????")
        time.sleep(0.02)
else:
    path = os.environ["E2E_DIR"] + "/site-packages/large.py"
    until = time.monotonic() + 60
    while resident.share(path) < 1 and time.monotonic() < until:
        time.sleep(0.02)
    print("share", resident.share(path), "large" in sys.modules)
END
export PYTHONDONTWRITEBYTECODE=1 # so that the file itself is read
python3 -c 'print("value = 1 #", "x" * 3_000_000)' >site-packages/large.py
launch 0 --max_restarts=1 --standby=large program.py imports
python3 -c 'import resident, sys
sys.exit(not resident.evict("site-packages/large.py"))' ||
    skip 'this file system keeps its files in memory'
launch 0 --max_restarts=1 --standby=large program.py looks
has 'share 1.0 False' it.out
