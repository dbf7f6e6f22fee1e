# What `python -c` runs first, in any Python: one that is older than 3.9 starts the
# program as if we were not there, and no other line of ours is read by it.
import os, sys
if sys.version_info < (3, 9):
    if sys.argv[2] == "learn":
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")[:-1]
        environ = dict(entry.split(b"=", 1) for entry in entries)
        os.execve(sys.executable, sys.argv[6:], environ)
    os.write(int(sys.argv[3]), b"this Python is older than 3.9")
    os._exit(0)
exec(sys.argv.pop(1))
