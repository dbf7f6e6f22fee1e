#!/bin/sh
# A daemon without memory finds newcomers at its door, enough for a round of
# their own, before the members of a running job have come back: does the job
# run on, and do the newcomers become its spares?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
conf=heartbeat_timeout=8 # longer than members are frozen here
daemon one "$port"
nodes "a b" --nnodes=2 --max_restarts=1 --rdzv_conf=$conf \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 2
members=$(values instance 1)
pids="$(worker_of 0 1) $(worker_of 1 1)"
kill -KILL "$(pid_of one)"
ends_with 137 one
# So that they come last.
kill -STOP "$(agent_of a)" "$(agent_of b)"
daemon two "$port"
nodes "c d" --nnodes=2 --max_restarts=1 --rdzv_conf=$conf \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 4
kill -CONT "$(agent_of a)" "$(agent_of b)"
for name in c d; do
    wait_for 'waits as a spare' $name.err
done
has ': moved: ' two.err
for pid in $pids; do
    kill -0 "$pid" || fail "a worker of the job was stopped"
done
# And it goes on as if nothing had been.
kill -KILL "$(worker_of 1 1 | head -n 1)"
wait_round 2 2
same "$members" "$(values instance 2)" 'instance after a failure'
lines 6 '^round=' started
open_gate
all_end 0 a b c d
