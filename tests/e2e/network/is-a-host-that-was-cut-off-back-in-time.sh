#!/bin/sh
# The cable of a node, and then of the host that serves the rendezvous, is cut for
# long enough that the others go on without it. Once the cable is back: is the
# host in the job again within 2 s, whoever leads that by then?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network a b c d e
nodes_on "a b c d e" --nnodes=3:5 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=1 ./careful
wait_world 5
for name in c a c; do
    before=$ROUND
    cut_off $name
    wait_world 4 "$before"
    alone=$ROUND
    sleep 7
    began=$(now_ms)
    heal $name
    wait_world 5 "$alone"
    took=$(began_after "$ROUND")
    measured "$name was cut off: all run $took ms after the cable is back"
    in_time 2500 "$took" 'the next round (2 s, and its start)'
done
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in a b c d e; do ends_with 0 $name; done
nothing_left
