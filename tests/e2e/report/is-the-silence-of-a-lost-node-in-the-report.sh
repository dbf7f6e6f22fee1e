#!/bin/sh
# The launcher of one of two nodes is frozen until its lease is over. Does
# ddpctl report count the time since its last word as detection, as the server
# does, from the events of both, and of the other one alone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
for name in a b; do
    node $name --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=3 --events=events-$name "$WORKER" become sleep 600
done
wait_round 1 2
sleep 2
frozen=$(agent_of b)
kill -STOP "$frozen"
wait_round 2 1
ctl 0 "127.0.0.1:$port" status --json
mv ctl.out status
kill -KILL "$frozen"
has '"event":"stopped".*"detect_s":[0-9.]*' events-a
for files in 'events-a events-b' events-a; do
    # shellcheck disable=SC2086 # words
    "$DDPCTL" report --json $files >sums || fail 'no report'
    python3 - >told <<'PY' || fail "of $files: $(cat told)"
import json
ours = json.load(open("sums"))["runs"][0]["timeline"][0]["detect_s"]
server = json.load(open("status"))["runs"][0]["timeline"][0]["detect_s"]
print(f"detection of the events: {ours} s, of the server: {server} s")
assert server > 2 and abs(ours - server) < 0.3
PY
    measured "$(cat told)"
done
