#!/bin/sh
# SIGKILL of an external daemon while workers run, and a new one at the same
# port: is no worker restarted, and is a failure afterwards handled?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon one "$port"
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=20 "$WORKER" gate
wait_round 1 4
kill -KILL "$(pid_of one)"
ends_with 137 one
for name in a b; do
    wait_for 'connected to the rendezvous again' $name.err
done
# Longer than heartbeat_timeout: one of the two serves by then.
sleep 1.5
lines 4 '^round=' started
daemon two "$port"
sleep 1.5
lines 4 '^round=' started
began=$(now_ms)
kill -KILL "$(worker_of 1 1)"
wait_lines 8 '^round=' started
measured "worker killed after that, all run again:" \
    "$(took_to '[2-9]') ms"
lines 4 '^round=[2-9] .* restarts=1 ' started
same "$(values instance 1)" "$(values instance '[2-9]')" instance
open_gate
all_end 0 a b
kill -TERM "$(pid_of two)"
ends_with 0 two
nothing_left
