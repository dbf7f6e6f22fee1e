#!/bin/sh
# Half handshakes, crumbs of TLS and silence at a daemon with a token: do nodes
# get in past them at once, and are they gone after ten seconds?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
umask 077
make_token token
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' d.err
cat >slow.py <<'PY'
import socket, sys, time
port = int(sys.argv[1])
kept = []
head = bytes([22, 3, 1, 1, 0x2c, 1, 0, 1, 0x28])
for i in range(200):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    if i % 4 == 1:
        s.sendall(head)
    if i % 4 == 2:
        s.sendall(head + b"\3\3" + bytes(200))
    kept.append(s)
crumbs = [s for i, s in enumerate(kept) if i % 4 == 3]
print("said all", flush=True)
began = time.monotonic()
text = head + b"\3\3" + bytes(32)
for n in range(len(text)): # a byte now and then does not buy time
    time.sleep(0.25)
    for s in crumbs:
        try:
            s.sendall(text[n:n + 1])
        except OSError:
            pass # it was closed already, as the end of this asks
for s in kept:
    s.settimeout(max(0.1, began + 30 - time.monotonic()))
    try:
        while s.recv(4096):
            pass
    except ConnectionResetError:
        pass
print("all closed", flush=True)
PY
background s python3 slow.py "$port"
wait_for 'said all' s.out
rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(pid_of d)/status")
began=$(now_ms)
nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_token_file=token --rdzv_conf=heartbeat_timeout=0.5 \
    "$WORKER" gate
wait_round 1 2
took=$(took_to 1)
measured "two nodes past 200 strangers: $took ms; daemon $rss KB"
in_time 1000 "$took" 'the meeting of the nodes'
[ "$rss" -lt 30000 ] || fail "strangers cost the daemon $rss KB"
wait_for 'all closed' s.out 30
lines 2 '^round=' started
open_gate
all_end 0 a b
