#!/bin/sh
# Each form of --listen, and each limit: does the daemon listen where it is told
# and nowhere else, and is who comes beyond a limit told so, or cut off?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >reach.py <<'PY'
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
socket.create_connection((host, port), timeout=30).close()
PY
# reaches HOST
reaches()
{
    python3 reach.py "$1" "$port" 2>/dev/null
}
# listens_as FORM: a daemon that does.
listens_as()
{
    background d "$DDPRDZVD" --listen="$1"
    wait_for "serving on port $port" d.err
}
stops()
{
    kill -TERM "$(pid_of d)"
    ends_with 0 d
}
port=$(free_port)
listens_as "127.0.0.1:$port"
reaches 127.0.0.1 || fail '127.0.0.1 is not served'
reaches 127.0.0.2 && fail '127.0.0.2 is served'
reaches ::1 && fail '::1 is served'
background second "$DDPRDZVD" --listen="127.0.0.1:$port"
end_of second
same 78 "$STATUS" 'status of a second daemon on a port'
has 'in use; a launcher (ddprun) that serves its own job, another ddprdzvd or another program has that port' second.err
background second "$DDPRDZVD" --listen="192.0.2.1:$port"
ends_with 78 second
has 'no interface of this machine has that address' second.err
stops
node n --nnodes=1 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 1
background second "$DDPRDZVD" --listen="127.0.0.1:$port"
ends_with 78 second
has 'a launcher (ddprun) .* (ss -ltnp shows which): end it, or' second.err
open_gate
ends_with 0 n
close_gate
: >started
for form in ":$port" "0.0.0.0:$port" "localhost:$port"; do
    listens_as "$form"
    reaches 127.0.0.1 || fail "127.0.0.1 is not served with $form"
    stops
done
if [ -n "$(cat /proc/net/if_inet6 2>/dev/null)" ]; then
    listens_as "[::]:$port"
    reaches ::1 || fail '::1 is not served with [::]'
    reaches 127.0.0.1 || fail '127.0.0.1 is not served with [::]'
    stops
    listens_as "[::1]:$port"
    reaches ::1 || fail '::1 is not served'
    reaches 127.0.0.1 && fail '127.0.0.1 is served with [::1]'
    stops
fi
for form in '' "$port" host: "host:99999" "host:1x" "[::1]29400" ::1 \
    "::1:$port" "fd00::1:$port"; do
    background bad "$DDPRDZVD" --listen="$form"
    ends_with 2 bad
    has 'ADDRESS:PORT' bad.err
done
# Values beyond what each limit may be are refused, by its name and its range.
for option in max_nodes=0 max_nodes=100001 max_runs=0 max_runs=4097 \
    max_runs=x max_runs= max_connections=-1 \
    max_connections=1000001 max_frame=32767 max_frame=65537 max_http=-1 \
    max_http=1025; do
    background bad "$DDPRDZVD" --listen="127.0.0.1:$port" --$option
    ends_with 2 bad
    has "--${option%%=*}" bad.err
done

background d "$DDPRDZVD" --listen="127.0.0.1:$port" --max_runs=2 --max_nodes=3 \
    --max_connections=8 --max_frame=40000 --max_http=0
wait_for "serving on port $port" d.err
# join NAME ID NODES
join()
{
    node "$1" --nnodes="$3" --rdzv_endpoint="127.0.0.1:$port" --rdzv_id="$2" \
        "$WORKER" gate
}
join a one 2
join b two 1
wait_round 1 1
join c three 1
ends_with 71 c
has 'this rendezvous is full (--max_nodes=3, --max_runs=2)' c.err
join f four 4
ends_with 2 f
has 'takes at most 3 nodes (ddprdzvd --max_nodes)' f.err
cat >limits.py <<'PY'
import json, socket, struct, sys, time
port = int(sys.argv[1])
HELLO = b"\xddddprun\x01"

def cut_off(data, within=30):
    """Whether that ends the connection, before it is there as a whole."""
    with socket.create_connection(("127.0.0.1", port), timeout=within) as s:
        s.sendall(data)
        try:
            while s.recv(4096):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

def length(n):
    return struct.pack("<I", n)

options = """--nnodes=2
--max_restarts=0
--crash_loop=0
--node_strikes=0
--rdzv_backend=c10d
--mpi=none
--rdzv_conf=heartbeat_timeout=5s
--rdzv_conf=reconnect_timeout=600s
worker"""
join = json.dumps({
    "kind": "join", "version": 2, "run": "one", "agent": "1" * 32, "name": "n",
    "nodes_min": 2, "nodes_max": 2, "nproc": 1, "max_restarts": 0,
    "options": options, "join_ms": 1000, "last_call_ms": 0,
    "heartbeat_ms": 5000, "reconnect_ms": 600000}).encode()
waiting = HELLO + length(len(join)) + join
assert cut_off(HELLO + length(8193))
assert not cut_off(HELLO + length(8192), within=1)
assert cut_off(waiting + length(40001))
assert not cut_off(waiting + length(40000), within=1)
assert cut_off(b"GET /healthz HTTP/1.0\r\n\r\n")
kept = [socket.create_connection(("127.0.0.1", port)) for i in range(12)]
closed = set()

def look():
    for s in kept:
        s.setblocking(False)
        try:
            assert s.recv(1) == b""
            closed.add(s)
        except BlockingIOError:
            pass
        except ConnectionResetError:
            closed.add(s)

until = time.monotonic() + 30
while len(closed) < 6 and time.monotonic() < until:
    time.sleep(0.05)
    look()
time.sleep(0.3) # for one more
look()
assert len(closed) == 6, len(closed) # two of those that may come are nodes
PY
python3 limits.py "$port" 2>limits.err || fail 'see limits.err'
has 'a frame of an impossible length' d.err
has 'all connections that are allowed are in use\|others wait for its place' d.err
open_gate
ends_with 0 b
# The id of a run that ended is free again, and so is its place.
join e two 1
ends_with 0 e
kill -TERM "$(pid_of a)"
ends_with 143 a
