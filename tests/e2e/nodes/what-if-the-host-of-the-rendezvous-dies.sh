#!/bin/sh
# The node that serves the rendezvous is killed: does the other one, which has
# the same address here, serve and go on?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node a --nnodes=1:2 --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_listener "$port"
node b --nnodes=1:2 --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_round 1 4
began=$(now_ms)
kill -KILL "$(pid_of a)"
ends_with 137 a
nothing_left a
wait_lines 2 'groups=1 .*node=b ' started 30
measured "host of the rendezvous killed, the survivor runs alone:" \
    "$(took_to '[2-9]') ms"
open_gate
ends_with 0 b
nothing_left
