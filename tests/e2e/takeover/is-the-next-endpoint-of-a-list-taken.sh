#!/bin/sh
# A list of two daemons, and the first one is killed: do the nodes go on at the
# next one, with the same workers in the same round? Is a node that comes then,
# and finds the first daemon started again, sent to the other one?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network s1 s2 a b c
daemon_on s1 d1 29500
daemon_on s2 d2 29500
nodes_on "a b" --nnodes=1:3 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=s1:29500,s2:29500 \
    --rdzv_conf=heartbeat_timeout=2,last_call_timeout=3 ./careful
wait_world 2
same 1 "$ROUND" 'first round'
kill_node d1
sleep 4 # two leases
same 1 "$(newest_round)" 'round after the loss of the first daemon'
for name in a b; do
    for pid in $(workers_on $name 1); do
        ! is_gone "$pid" || fail "worker $pid of $name was killed"
    done
done
daemon_on s1 d1 29500
node_on c c --nnodes=1:3 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=s1:29500,s2:29500 \
    --rdzv_conf=heartbeat_timeout=2,last_call_timeout=3 ./careful
wait_world 3 1
same 1 "$(values instance "$ROUND" | wc -w)" instances
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in a b c; do ends_with 0 $name; done
for name in a b c; do nothing_left $name; done
