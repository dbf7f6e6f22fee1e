#!/bin/sh
# Nobody listens at the endpoint, its name does not resolve, something else
# listens there: does the launcher say what it tried, for how long, and what to
# check, and end with 69?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=is_host=0,join_timeout=1 true
ends_with 69 it
has "not reached in 1 s" it.err
has 'refused' it.err

command -v python3 >/dev/null || skip 'needs python3'
cat >silent.py <<'PY'
import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
held = []
while True:
    c, _ = s.accept()
    held.append(c)
    if sys.argv[2] == "http":
        c.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        c.close()
PY
for kind in http silent; do
    port=$(free_port)
    background $kind python3 silent.py "$port" $kind
    wait_for ready $kind.out
    node it --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=join_timeout=1,heartbeat_timeout=0.5 true
    ends_with 69 it
    has "not reached in [12] s" it.err
done
has_not 'Broken pipe' it.err

need_namespaces
# Not even loopback, as in a sandbox: that is told at once.
background bare unshare -n "$DDPRUN" --standalone true
ends_with 78 bare 5
has 'the loopback interface is down' bare.err
# Taken down after it was up: its addresses still have routes.
background downed unshare -n sh -c \
    'ip link set lo up && ip link set lo down && exec "$0" --standalone true' \
    "$DDPRUN"
ends_with 78 downed 5
has 'the loopback interface is down' downed.err

network host
node_on host it --nnodes=2 --rdzv_endpoint=nowhere.invalid:29500 \
    --rdzv_conf=join_timeout=1 true
ends_with 69 it 30
has "the name 'nowhere.invalid' does not resolve here" it.err
# No machine there: no answer at all.
node_on host it --nnodes=2 --rdzv_endpoint=10.77.0.9:29500 \
    --rdzv_conf=join_timeout=4 true
ends_with 69 it 30
has '10.77.0.9 port 29500: ' it.err
has 'firewall' it.err
