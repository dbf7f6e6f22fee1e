#!/bin/sh
# --nnodes=2 and a spare: when a node is cut off, does the spare take its place,
# and is the lost one, when it is back, a spare itself?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other third
nodes_on "host other" --nnodes=2 --nproc_per_node=1 \
    --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 \
    "$WORKER" gate
wait_round 1 2
node_on third third --nnodes=2 --nproc_per_node=1 \
    --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_for 'this node waits as a spare' third.err
same 2 "$(grep -c '^round=' started)" 'workers before the loss'
# Leases that were granted before the spare came were long ones: two beats.
sleep 0.6
began=$(now_ms)
cut_off other
wait_round 2 2 30
measured "cut off with a spare, heartbeat_timeout=1: all run again after" \
    "$(took_to 2) ms"
same 1 "$(grep -c '^round=2 .* node=third ' started)" 'workers of the spare'
for pid in $(workers_on other 1); do
    eventually 1 is_gone "$pid" || fail "worker $pid of the lost node lives"
done
heal other
eventually 30 has_lines 1 'connected to the rendezvous again' other.err ||
    fail 'the lost node does not come back'
same 4 "$(grep -c '^round=' started)" 'workers in all'
open_gate
all_end 0 host third other
nothing_left
