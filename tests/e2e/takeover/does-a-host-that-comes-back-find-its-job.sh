#!/bin/sh
# The host of the rendezvous is killed, the others go on elsewhere. It is started
# again with the same line: does it find the job, which its own address does not
# serve any more, and take its place?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

start()
{
    node_on "$1" "$1" --nnodes=2:3 --max_restarts=1 --scale_interval=0 \
        --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2,last_call_timeout=1 ./careful
}

careful_worker
network a b c
for name in a b c; do start $name; done
wait_world 3
kill_node a
wait_world 2 1
alone=$ROUND
end_of a
began=$(now_ms)
start a
wait_world 3 "$alone"
measured "the host of the rendezvous is back in the job after" \
    "$(took_to "$ROUND") ms"
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    'instances in all'
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in a b c; do ends_with 0 $name; done
for name in a b c; do nothing_left $name; done
