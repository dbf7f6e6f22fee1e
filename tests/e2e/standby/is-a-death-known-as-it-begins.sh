#!/bin/sh
# A worker that has much memory is killed. Are the others asked to stop before the
# kernel has taken it down, and is it still named, once? In the first life, which is
# that of a fresh Python, and in the next one, of a standby. A program that holds a port
# and a lock finds both free in each life, however soon the death is known: the next
# life begins when the last one is over. KILLS=100 for the long run.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"
python3 -c 'import os; os.pidfd_open' || skip 'needs Python 3.9'
kills=${KILLS:-2}

cat >program.py <<'END'
import fcntl, os, select, signal, socket, sys, time
import standbys
rank, life = (int(os.environ[n]) for n in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
lock = open(f"lock{rank}", "a")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
port = socket.create_server(("127.0.0.1", int(sys.argv[1]) + rank))

def stopped(signo, frame):
    gone = select.select([peer], [], [], 0)[0]
    open(f"asked{life}", "w").write("after\n" if gone else "before\n")
    sys.exit(0)

if life == int(sys.argv[2]):
    sys.exit(0)
standbys.wait(2)
if rank == 1:
    os.nice(10)  # on a busy machine the launcher runs before all of this is gone
    data = bytearray(300 << 20)
    data[::4096] = b"x" * len(data[::4096])
    open(f"pid{life}.new", "w").write(str(os.getpid()))
    os.rename(f"pid{life}.new", f"pid{life}")
else:
    while not os.path.exists(f"pid{life}"):
        time.sleep(0.01)
    peer = os.pidfd_open(int(open(f"pid{life}").read()))
    signal.signal(signal.SIGTERM, stopped)
    open(f"ready{life}", "w").close()
while True:
    time.sleep(0.01)
END
port=$(free_port)
background it "$DDPRUN" --nproc_per_node=2 --max_restarts="$kills" --standby=auto \
    program.py "$port" "$kills"
for life in $(seq 0 $((kills - 1))); do
    eventually 60 test -e "ready$life" || fail "life $life does not come so far"
    sleep 1 # two beats, at which the launcher looks who may be watched
    kill -KILL "$(cat "pid$life")"
done
ends_with 0 it
for life in $(seq 0 $((kills - 1))); do
    same before "$(cat "asked$life")" "life $life: asked to stop"
done
same "$kills" "$(grep -c 'rank 1 (pid [0-9]*): signal 9 (SIGKILL)' it.err)" \
    'words on the death of rank 1'
has_not 'rank 0 (pid' it.err
nothing_left
