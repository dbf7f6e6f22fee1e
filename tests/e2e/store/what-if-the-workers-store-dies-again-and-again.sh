#!/bin/sh
# The process of the workers' store is killed, three times in a round: is there
# an empty one each time, at once for the first, and then no more than one a
# second, so that one that cannot run keeps nobody busy?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >client.py <<'PY'
import os, socket, struct, time
def text(t): return struct.pack("<Q", len(t)) + t
def use():
    s = socket.create_connection((os.environ["MASTER_ADDR"],
                                  int(os.environ["MASTER_PORT"])), timeout=20)
    s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
    s.sendall(b"\4" + text(b"here") + struct.pack("<q", 1))
    n, = struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))
    with open(os.environ["E2E_DIR"] + "/counts", "a") as f:
        f.write(f"count {n} round {os.environ['DDP_ROUND']}\n")
    s.recv(1)
while True:
    try:
        use()
    except (OSError, struct.error):
        time.sleep(0.01)
PY
: >counts
node it --max_restarts=1 python3 client.py
wait_lines 1 'count 1 round 1' counts
agent=$(agent_of it)
kill_store()
{
    store=
    for _pid in $(cat "/proc/$agent/task/$agent/children"); do
        # shellcheck disable=SC3013 # dash has -ef
        [ ! "/proc/$_pid/exe" -ef "$DDPRUN_FILE" ] || store=$_pid # the last
    done
    began=$(now_ms)
    kill -KILL "${store:?is not there}"
}
kill_store
wait_lines 2 'count 1 round 1' counts
in_time 900 "$(took)" 'the next store'
for lines in 3 4; do
    kill_store
    wait_lines $lines 'count 1 round 1' counts
    [ "$(took)" -ge 900 ] || fail "the next one was there after $(took) ms"
done
lines 3 'store ended unexpectedly (killed by signal 9); a new, empty one' it.err
kill -TERM "$(pid_of it)"
ends_with 143 it
