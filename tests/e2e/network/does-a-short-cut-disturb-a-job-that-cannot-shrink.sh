#!/bin/sh
# --nnodes=2, failover=0, and the cable is cut for longer than heartbeat_timeout:
# since nobody could go on without the lost node, do all workers run on? And is a
# failure that happens meanwhile handled when the cable is back?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other
for machine in host other; do
    node_on $machine $machine --nnodes=2 --nproc_per_node=2 --max_restarts=2 \
        --rdzv_endpoint=host:29500 \
        --rdzv_conf=failover=0,heartbeat_timeout=0.5,reconnect_timeout=20 "$WORKER" gate
done
wait_round 1 4
sleep 1.5 # for a lease to be granted
cut_off other
wait_for 'lost the connection' other.err
sleep 1.5
heal other
wait_for 'connected to the rendezvous again' other.err
sleep 1.5 # for another one
lines 4 '^round=' started
cut_off other
sleep 0.7
kill -SEGV "$(workers_on other 1 | head -n 1)"
wait_for 'signal 11' other.err
sleep 0.3
lines 4 '^round=' started
heal other
wait_round 2 4
same '1 ' "$(values restarts 2)" restarts
open_gate
ends_with 0 host
ends_with 0 other
