#!/bin/sh
# Three nodes, all of which the job needs, run for a while before a fourth one
# comes as a spare. The machine that serves the rendezvous is cut off without a
# word: do the others and the spare run within heartbeat_timeout and a second? The
# three had had long leases, which nobody is to wait for any more, and the spare
# came when the round had begun.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

start()
{
    node_on "$1" "$1" --nnodes=3 --max_restarts=1 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2,reconnect_timeout=20 ./careful
}

careful_worker
network a b c d
for name in a b c; do start $name; done
wait_world 3
sleep 3 # long leases are given
start d
eventually 30 grep -q 'waits as a spare' d.err || fail 'd is no spare'
sleep 2 # and ended
began=$(now_ms)
cut_off a
wait_world 3 "$ROUND"
took=$(took_to "$ROUND")
measured "the host that serves cut off: the spare runs with the others after" \
    "$took ms"
in_time 3000 "$took" 'the next round (heartbeat_timeout + 1 s)'
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in b c d; do ends_with 0 $name; done
heal a
end_of a 30
for name in a b c d; do nothing_left $name; done
