#!/bin/sh
# Four nodes of which two are enough. The one that serves the rendezvous loses
# its power, then the one that serves in its place: do the other two go on each
# time, with no charge?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"


careful_worker
network a b c d
nodes_on "a b c d" --nnodes=2:4 --max_restarts=1 \
    --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=2 ./careful
wait_world 4
first=$ROUND
kill_node a
began=$(now_ms)
wait_world 3 "$first"
measured "first host lost: the others run again after $(took_to "$ROUND") ms"
second=$ROUND
kill_node b
began=$(now_ms)
wait_world 2 "$second"
measured "second host lost: the others run again after $(took_to "$ROUND") ms"
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in c d; do ends_with 0 $name; done
for name in a b; do end_of $name; done
for name in a b c d; do nothing_left $name; done
