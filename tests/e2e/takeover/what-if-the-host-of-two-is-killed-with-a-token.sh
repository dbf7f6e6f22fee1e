#!/bin/sh
# Two nodes with a token, and the first serves the rendezvous itself. Guard and
# agent of it are killed at once, and the janitor, which has no token, says farewell
# for them: does the other one go on alone at once? Does the next launcher on that
# host find its job, so that both run again, in the same instance?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

start()
{
    node_on "$1" "$1" --nnodes=1:2 --max_restarts=1 --scale_interval=0 \
        --rdzv_endpoint=a:29500 --rdzv_token_file=token \
        --rdzv_conf=heartbeat_timeout=2 ./careful
}

careful_worker
make_token token
network a b
for name in a b; do start $name; done
wait_world 2
began=$(now_ms)
kill_both a
wait_world 1 "$ROUND"
measured "host of two killed, with a token: the other runs alone after" \
    "$(took_to "$ROUND") ms"
in_time 1500 "$(took_to "$ROUND")" 'the round of the other one'
end_of a
both=$ROUND
began=$(now_ms)
start a
wait_world 2 "$both" 30
measured "host of two killed, with a token, and started again: both run after" \
    "$(took_to "$ROUND") ms"
has_not 'another --rdzv_id' a.err
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
for name in a b; do ends_with 0 $name; done
for name in a b; do nothing_left $name; done
