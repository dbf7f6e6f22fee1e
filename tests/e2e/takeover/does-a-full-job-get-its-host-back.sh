#!/bin/sh
# A job that needs both of its nodes, with default times. The one that serves the
# rendezvous is killed and started again with the same line: do both run again
# within 5 s, though the one that was left has no round that it could seal? Then
# the other one, which serves by now: do both run again, in time as well?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network a b
nodes_on "a b" --nnodes=2 --max_restarts=1 --rdzv_endpoint=a:29500 ./careful
wait_world 2

# back NAME: the node is killed and started again.
back()
{
    last=$ROUND
    kill_both "$1"
    end_of "$1"
    sleep 1
    began=$(now_ms)
    node_on "$1" "$1" --nnodes=2 --max_restarts=1 --rdzv_endpoint=a:29500 \
        ./careful
    wait_world 2 "$last"
    took=$(took_to "$ROUND")
    measured "host $1 of a job of two is started again: both run after $took ms"
    in_time 5000 "$took" "the round with host $1"
}

back a
back b
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
same '0 ' "$(values restarts "$ROUND")" restarts
has_not 'another --rdzv_id' a.err
none_overlap
open_gate
for name in a b; do ends_with 0 $name; done
for name in a b; do nothing_left $name; done
