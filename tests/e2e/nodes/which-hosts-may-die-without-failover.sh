#!/bin/sh
# Three nodes of which one is enough, and the first serves the rendezvous, without
# failover. The other two are lost, one by its cable and one by all its processes:
# does the first go on alone? It is lost itself: do the other two stop, wait for
# it, and end with status 72, as they say at the start?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

three()
{
    : >started
    for name in a b c; do
        node_on $name $name --rdzv_id="$1" --nnodes=1:3 --scale_interval=0 \
            --rdzv_endpoint=a:29500 \
            --rdzv_conf=failover=0,heartbeat_timeout=2,reconnect_timeout=6 \
            ./careful
    done
    wait_world 3
    same 1 "$(cat a.err b.err c.err |
        grep -c 'but the rendezvous at a port 29500 only for 6 s')" \
        'lines that say what may die'
}

careful_worker
network a b c
three others
cut_off b
wait_world 2 "$ROUND"
kill_node c
wait_world 1 "$ROUND"
same 0 "$(ranks_on a "$ROUND")" 'ranks of the first'
none_overlap
open_gate
ends_with 0 a
end_of b 30
end_of c
close_gate
heal b

three first
kill_node a
for name in b c; do ends_with 72 $name 30; done
end_of a
for name in a b c; do nothing_left $name; done
