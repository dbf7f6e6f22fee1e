#!/bin/sh
# A cable that comes and goes: in gaps shorter than a lease, is nobody
# restarted; in longer ones, do rounds never overlap and does it end in a world
# of all with no charge?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network server a b c
daemon_on server d 29500
nodes_on "a b c" --nnodes=2:3 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=server:29500 --rdzv_conf=heartbeat_timeout=4 ./careful
wait_world 3
for turn in 1 2 3 4; do
    cut_off c
    sleep 0.4
    heal c
    sleep 0.7
done
lines 3 '^round=' started
measured 'four gaps of 0.4 s with heartbeat_timeout=4: nobody restarted'
for turn in 1 2; do
    cut_off c
    sleep 4.6
    heal c
    sleep 0.$((turn * 3))
done
eventually 30 whole_round 3 1 || fail 'no world of all three'
sleep 1
wait_world 3 1
measured "two gaps of 4.6 s: $((ROUND - 1)) more rounds"
[ "$ROUND" -le 5 ] || fail 'that is more than two rounds a gap'
lines 0 ' restarts=[1-9]' started
same 1 "$(values instance "$ROUND" | wc -w)" instances
open_gate
for name in a b c; do ends_with 0 $name; done
none_overlap
for name in a b c; do nothing_left $name; done
