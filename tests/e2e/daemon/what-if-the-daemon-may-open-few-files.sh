#!/bin/sh
# With 200 descriptors: does the daemon say for how many nodes that is enough,
# tell each node beyond them why it cannot come in, stay calm when strangers
# take every descriptor, and serve again when there is room? And with fewer than
# it needs: does it always say so, instead of dying?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
no_look_for_leaks
port=$(free_port)
for n in $(seq 4 39); do
    (ulimit -n "$n" && exec "$DDPRDZVD" --c10d \
        --listen=127.0.0.1:0) 2>few.err
    same 71 $? "the status with $n descriptors"
    has 'oo many open files\|(ulimit -n)' few.err
done
# The limit is the daemon's alone.
background d sh -c 'ulimit -n 200 && exec "$@"' sh \
    "$DDPRDZVD" --listen="127.0.0.1:$port"
wait_for 'serving on port' d.err
has 'at most 119 nodes can join, not 16384: raise the limit of open files, which is 200' d.err
cat >many.py <<'PY'
import json, socket, struct, sys, time
HELLO = b"\xddddprun\x01"
port, pid = int(sys.argv[1]), sys.argv[2]

def join(i, run, n, **what):
    body = json.dumps({
        "kind": "join", "version": 2, "run": run, "agent": "%032x" % i,
        "name": "n%d" % i, "nodes_min": n, "nodes_max": n, "nproc": 1,
        "max_restarts": 0, "join_ms": 60000, "last_call_ms": 0,
        "heartbeat_ms": 60000, "reconnect_ms": 1000, **what}).encode()
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    s.sendall(HELLO + struct.pack("<I", len(body)) + body)
    return s

def farewell(i, run):
    """What is said for a launcher that is dead."""
    body = json.dumps({"kind": "vote", "last": 1, "version": 2, "run": run,
                       "agent": "%032x" % i}).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(HELLO + struct.pack("<I", len(body)) + body)
        heard(s, b"no such word")

def heard(s, word):
    """What it is told until that word, or the end, comes."""
    text = b""
    while word not in text:
        more = s.recv(65536)
        if not more:
            break
        text += more
    return text

def cpu_ticks():
    fields = open("/proc/%s/stat" % pid).read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])

assert b"takes at most 119 nodes" in heard(join(0, "big", 120), b"--max_nodes")
inside = [join(i, "full", 119) for i in range(119)]
for s in inside:
    assert b'"world"' in heard(s, b'"world"')
for i in range(300):
    with join(1000 + i, "more", 1) as s:
        assert b"rendezvous is full (--max_nodes=119," in heard(s, b"limits"), i
strangers = []
for i in range(300):
    strangers.append(socket.create_connection(("127.0.0.1", port), timeout=30))
before = cpu_ticks()
time.sleep(1)
assert cpu_ticks() - before < 20, "it spins"
for s in strangers:
    s.close()
inside.pop().close()
farewell(118, "full")
heard(inside[0], b'"stop"')
assert b'"world"' in heard(join(2000, "more", 1), b'"world"')
print("done", flush=True)
PY
python3 many.py "$port" "$(pid_of d)" >many.out 2>many.err ||
    fail 'see many.err'
is_gone "$(pid_of d)" && fail 'the daemon is gone'
[ "$(grep -c 'connection from .* closed' d.err)" -le 25 ] ||
    fail 'strangers fill the log'
