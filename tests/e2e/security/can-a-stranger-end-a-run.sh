#!/bin/sh
# Anybody can read /status of an open daemon. Can a stranger use what it shows of
# a run to end it, by saying that an earlier server had told so?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
for n in a b; do
    node $n --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=job \
        "$WORKER" gate
done
wait_round 1 2
whole=$(values instance 1 | head -n 1)
cat >ended.py <<'PY'
import json, socket, struct, sys
port, instance = int(sys.argv[1]), sys.argv[2]
body = json.dumps({
    "kind": "join", "version": 1, "run": "job", "agent": "%032x" % 9,
    "name": "stranger", "nodes_min": 2, "nodes_max": 2, "nproc": 1,
    "max_restarts": 0, "join_ms": 600000, "heartbeat_ms": 5000,
    "last_call_ms": 0,
    "reconnect_ms": 600000, "instance": instance, "round": 1, "ended": 1,
    "end_status": 9}).encode()
s = socket.create_connection(("127.0.0.1", port), timeout=30)
s.sendall(b"\xddddprun\x01" + struct.pack("<I", len(body)) + body)
text = b""
while True:
    more = s.recv(65536)
    if not more:
        break
    text += more
print("answer", b'"end"' in text)
PY
shown=$(python3 "$E2E_LIB/get.py" "$port" /status 'run["instance"]')
[ "${#shown}" -ge 8 ] || fail "/status shows no instance, but '$shown'"
case $whole in
"$shown") fail "/status shows the whole instance, $whole" ;;
"$shown"*) ;;
*) fail "/status shows $shown of the instance $whole" ;;
esac
for guess in "$shown" "$shown$(printf '%032d' 0 | cut -c "$((${#shown} + 1))"-)"; do
    python3 ended.py "$port" "$guess" >answer 2>&1 || fail "$(cat answer)"
    has 'answer True' answer # this much is answered, and changes nothing
done
same active \
    "$(python3 "$E2E_LIB/get.py" "$port" /status 'run["state"]')" 'the run'
lines 2 '^round=' started
open_gate
ends_with 0 a
ends_with 0 b
