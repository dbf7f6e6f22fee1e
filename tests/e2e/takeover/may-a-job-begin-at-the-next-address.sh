#!/bin/sh
# A list of two daemons, and the first one is down when the job starts. The job
# needs so many nodes that no second one can have as many: does it begin at the
# second daemon? Does a node that finds the first daemon, started later, join it?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

start()
{
    node_on "$1" "$1" --nnodes=2:3 --max_restarts=1 --scale_interval=0 \
        --rdzv_endpoint=s1:29500,s2:29500 \
        --rdzv_conf=heartbeat_timeout=2,last_call_timeout=1 ./careful
}

careful_worker
network s1 s2 a b c
daemon_on s2 d2 29500
began=$(now_ms)
start a
start b
wait_world 2
measured "a job begins at its second address after" "$(took_to "$ROUND") ms"
daemon_on s1 d1 29500
start c
wait_world 3 "$ROUND"
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    'instances in all'
none_overlap
open_gate
for name in a b c; do ends_with 0 $name; done
for name in a b c; do nothing_left $name; done
