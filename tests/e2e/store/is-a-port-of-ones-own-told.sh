#!/bin/sh
# A child of a worker waits, as PyTorch does, for a store at a port of its own, which
# nobody begins: is the remedy told after half a minute? And is nothing told where the
# worker came to the workers' store before?
# limit: 180
# long: it is told after half a minute
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >spawn.py <<'PY'
import ctypes, mmap, os, signal, socket, sys

class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

if sys.argv[2] == "used":
    at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    socket.create_connection(at, timeout=30).close()
if os.fork() > 0:
    signal.pause()
with open("libtorch_of_a_test", "rb") as f:
    mapped = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
libc = ctypes.CDLL(None)
while socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))) != 0:
    libc.nanosleep(ctypes.byref(Timespec(1, 0)), None)
PY
echo x >libtorch_of_a_test
port=$(free_port)
for how in own used; do
    background $how "$DDPRUN" --no_python python3 "$PWD/spawn.py" "$port" $how
done

wait_lines 1 "nobody has come to the workers' store at MASTER_PORT in 30 s" own.err 45
has 'a child of local rank 0 (pid [0-9]*) waits as PyTorch does' own.err
has 'start it with --worker_store=none' own.err
sleep 6
lines 1 'has come to the workers. store' own.err
has_not 'worker_store' used.err
for how in own used; do
    kill -INT "$(pid_of $how)"
    ends_with 130 $how 40
done
nothing_left
