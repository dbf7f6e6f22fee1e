#!/bin/sh
# A host without a job takes every place of an open daemon beside a job that runs,
# and goes on and on: does the job notice nothing, is the next one told why it is
# refused, does it get in when the stranger is gone, and does the log stay small?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
network server a b bad
(in_machine server env "E2E_MARK=$E2E_DIR:d" "$DDPRDZVD" \
    --listen=0.0.0.0:29500 --max_runs=16 --max_nodes=64) \
    >d.out 2>d.err 9<&- &
pid_d=$!
wait_for 'serving on port' d.err
cat >bad.py <<'PY'
import json, select, socket, struct, sys, time
HELLO = b"\xddddprun\x01"
first = int(sys.argv[1])

def join(i, nodes):
    body = json.dumps({
        "kind": "join", "version": 2, "run": "bad%d" % i, "agent": "%032x" % i,
        "name": "bad", "nodes_min": nodes, "nodes_max": nodes, "nproc": 1,
        "max_restarts": 0, "join_ms": 600000, "last_call_ms": 0,
        "heartbeat_ms": 60000, "reconnect_ms": 600000}).encode()
    s = socket.create_connection(("10.77.0.1", 29500), timeout=30)
    s.sendall(HELLO + struct.pack("<I", len(body)) + body)
    text = b""
    while b'"world"' not in text and b'"waiting"' not in text:
        more = s.recv(65536)
        if not more:
            return None
        text += more
    return s

def take_all(nodes, n):
    kept = [join(first + n * 100 + i, nodes) for i in range(100)]
    return [s for s in kept if s is not None]

kept = take_all(2, 1)
print("waits", len(kept), flush=True)
# Comes and goes, as fast as it can, for as long as it takes.
turns = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    s = join(first + 1000 + turns, 1)
    turns += 1
    if s is not None:
        s.close()
print("turns", turns, flush=True)
PY
mkfifo go
come()
{
    node_on "$1" "$1" --nnodes=2 --rdzv_endpoint=10.77.0.1:29500 \
        --rdzv_id="$2" "$WORKER" gate
}
come a one
come b one
wait_round 1 2
first=$(values instance 1)
(in_machine bad sh -c 'exec python3 bad.py 1000000 <go') \
    >bad.out 2>bad.err 9<&- &
pid_bad=$!
exec 8>go
wait_for 'waits 15' bad.out # of sixteen: one is the job's
sleep 1
node_on a c --nnodes=1 --rdzv_endpoint=10.77.0.1:29500 --rdzv_id=two true
ends_with 71 c
has 'this rendezvous is full (--max_nodes=64, --max_runs=16): wait until a run' c.err
# The job that runs has noticed nothing.
same "$first" "$(values instance 1)" instance
lines 2 '^round=' started
echo go >&8
wait_for turns bad.out
end_of bad
node_on a e --nnodes=1 --rdzv_endpoint=10.77.0.1:29500 --rdzv_id=two true
ends_with 0 e
open_gate
all_end 0 a b
kill -TERM "$pid_d"
end_of d
turns=$(sed -n 's/^turns //p' bad.out)
about=$(grep -c 'bad' d.err)
measured "$turns turns of the stranger, $about lines of the log"
has 'more lines were left out' d.err
[ "$about" -lt 1500 ] || fail "a stranger fills the log: $about lines"
exec 8>&-
