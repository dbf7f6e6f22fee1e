#!/bin/sh
# A daemon that is frozen for longer than heartbeat_timeout: do its nodes go on by
# themselves, with no worker stopped?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=2 --max_restarts=1 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=2 "$WORKER" gate
wait_round 1 2
sleep 1.5 # for a lease to be granted
kill -STOP "$(pid_of d)"
sleep 4
kill -CONT "$(pid_of d)"
sleep 0.5
lines 2 '^round=' started
for name in a b; do
    has_not 'are killed' $name.err
done
kill -KILL "$(worker_of 0 1)"
wait_lines 4 '^round=' started
open_gate
all_end 0 a b
