#!/bin/sh
# Something looks whether the port of the rendezvous is open, as monitors and
# load balancers do: it connects, says nothing, and closes or resets. Does the
# log of neither a daemon nor a launcher that serves have a line about it, and
# does /metrics count the reset? And is a peer that does say something told of?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >look.py <<'PY'
import socket, struct, sys, time
for linger, says in (0, b""), (1, b""), (0, b"\r\n"):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                 struct.pack("ii", linger, 0))
    s.sendall(says)
    time.sleep(0.1)
    s.close()
PY
port=$(free_port)
daemon d "$port"
python3 look.py "$port" || fail 'cannot look'
wait_for 'connection from 127.0.0.1 closed: ' d.err
lines 2 '' d.err # that it serves, and the third one
python3 -c 'import sys, urllib.request as u
print(u.urlopen("http://127.0.0.1:" + sys.argv[1] + "/metrics").read().decode())' \
    "$port" >metrics || fail 'no metrics'
has '^ddprun_connections_rejected_total{reason="silent"} 1$' metrics
has '^ddprun_connections_rejected_total{reason="protocol"} 1$' metrics
kill "$(pid_of d)"
ends_with 0 d

port=$(free_port)
node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
wait_listener "$port"
python3 look.py "$port" || fail 'cannot look'
wait_for 'connection from 127.0.0.1 closed: ' it.err
lines 1 closed it.err
kill -TERM "$(pid_of it)"
ends_with 143 it
nothing_left
