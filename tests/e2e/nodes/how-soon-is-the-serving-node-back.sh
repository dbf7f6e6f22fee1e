#!/bin/sh
# Guard and agent on the machine that serves the rendezvous are killed, and its
# launcher is started again: does the next round begin within five seconds, with
# all defaults, though the job needs all of its nodes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

network host other
start()
{
    node_on "$1" "$1" --nnodes=2 --rdzv_endpoint=host:29500 "$WORKER" gate
}
start host
start other
wait_round 1 2
kill_both host
end_of host
nothing_left host
sleep 1
began=$(now_ms)
start host
wait_round 2 2
measured "the serving node's launcher started again: the next round runs after" \
    "$(took_to 2) ms"
in_time 5000 "$(took_to 2)" 'the round with the node that serves'
same '0 ' "$(values restarts 2)" restarts
open_gate
all_end 0 host other
