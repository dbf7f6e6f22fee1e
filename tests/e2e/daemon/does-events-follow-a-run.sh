#!/bin/sh
# Who asks for /events: is a document sent at once, another one when a worker
# failed and none while nothing happens; are 16 served, the next one told, and a
# node of the job and /healthz answered beside them?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=2 --max_restarts=2 --rdzv_id=job \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 2
cat >look.py <<'PY'
import json, os, signal, socket, sys, time
port, worker = int(sys.argv[1]), int(sys.argv[2])

def come():
    s = socket.create_connection(("127.0.0.1", port), timeout=40)
    s.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return s

def document(s, wanted=lambda run: True):
    """The next one of which it is true."""
    got = b""
    while True:
        more = s.recv(65536)
        assert more, got
        got += more
        *events, got = got.split(b"\n\n")
        for event in events:
            if event.startswith(b"data: "):
                run = json.loads(event[6:])["runs"][0]
                if wanted(run):
                    return run

s = come()
run = document(s)
assert run["id"] == "job" and run["state"] == "active" and run["round"] == 1
assert [n["state"] for n in run["nodes_list"]] == ["running"] * 2, run
# What is left of the start may still come; then nothing does.
s.settimeout(1.6)
try:
    while True:
        document(s)
except TimeoutError:
    pass
s.settimeout(40)
os.kill(worker, signal.SIGKILL)
run = document(s, lambda run: run["round"] == 2 and run["state"] == "active")
assert run["restarts"] == 1 and run["last_failure"]["round"] == 1, run
many = [come() for i in range(15)]
for each in many:
    assert document(each)["id"] == "job"
no = come().recv(100)
assert no.startswith(b"HTTP/1.1 503 "), no
with socket.create_connection(("127.0.0.1", port), timeout=40) as healthy:
    healthy.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert healthy.recv(100).startswith(b"HTTP/1.1 200 ")
many.pop().close()
until = time.monotonic() + 40
while not come().recv(100).startswith(b"HTTP/1.1 200 "):
    assert time.monotonic() < until, "no place for the next one"
    time.sleep(0.05)
PY
python3 look.py "$port" "$(worker_of 0 1)" >look.out 2>&1 || fail 'see look.out'
open_gate
all_end 0 a b
