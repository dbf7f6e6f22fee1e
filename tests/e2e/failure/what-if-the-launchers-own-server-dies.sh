#!/bin/sh
# The server process of the launcher that serves the rendezvous is killed: is it
# started again, with no worker disturbed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
for name in a b; do
    node $name --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
    wait_listener "$port"
done
wait_round 1 4
# It is the agent's first child.
server=
for pid in $(cat "/proc/$(agent_of a)/task/$(agent_of a)/children"); do
    : "${server:=$pid}"
done
kill -KILL "$server" || fail "the server is $server"
wait_for 'rendezvous server of this launcher was killed' a.err
for name in a b; do
    wait_for 'connected to the rendezvous again' $name.err
done
lines 4 '^round=' started
kill -KILL "$(worker_of 1 1)"
wait_lines 8 '^round=' started
lines 4 '^round=[2-9].* restarts=1 ' started
open_gate
all_end 0 a b
nothing_left
