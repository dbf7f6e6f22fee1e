#!/bin/sh
# --nnodes=2, and the cable is cut for less than a lease: do all workers run on?
# For longer: does the node fence itself, and do both run again, at no charge, once
# the cable is back?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other
nodes_on "host other" --nnodes=2 --nproc_per_node=2 --max_restarts=0 \
    --rdzv_endpoint=host:29500 \
    --rdzv_conf=heartbeat_timeout=3,reconnect_timeout=20 "$WORKER" gate
wait_round 1 4
cut_off other
sleep 0.7
heal other
sleep 3 # longer than a lease
lines 4 '^round=' started
cut_off other
wait_for 'the workers are killed' other.err
heal other
wait_round 2 4
same '0 ' "$(values restarts 2)" restarts
open_gate
all_end 0 host other
