#!/bin/sh
# Two nodes of which one is enough, and the first serves the rendezvous itself.
# Guard and agent there are killed, and the janitor says farewell for them: does
# the other one go on alone at once? The two are cut off from each other instead,
# so that both live: does the one that serves go on alone and the other one wait,
# and are both in one round again when the cable is mended?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

both()
{
    : >started
    nodes_on "a b" --rdzv_id="$1" --nnodes=1:2 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2 ./careful
    wait_world 2
}

careful_worker
network a b
both killed
began=$(now_ms)
kill_both a
wait_world 1 1
measured "host of two killed: the other runs alone after" \
    "$(took_to "$ROUND") ms"
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
ends_with 0 b
end_of a
close_gate

both cut
cut_off a
wait_world 1 1
same 0 "$(ranks_on a "$ROUND")" 'ranks of the one that serves'
alone=$ROUND
for pid in $(workers_on b 1); do
    is_gone "$pid" || fail "worker $pid of b lives without a lease"
done
sleep 3 # the other one has the time to do wrong
same '' "$(ranks_on b "$alone")" 'ranks of the one that was cut off'
lines 1 ' node=b ' started
heal a
wait_world 2 "$alone" 30
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in a b; do ends_with 0 $name; done
for name in a b; do nothing_left $name; done
