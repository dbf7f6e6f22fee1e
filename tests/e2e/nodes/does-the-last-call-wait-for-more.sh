#!/bin/sh
# --nnodes=1:3: is the first round sealed when the last call is over? With a shorter
# one, when a leader elsewhere has had a lease to say that it has the run?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# sealed_after_a_second LAST_CALL HEARTBEAT
sealed_after_a_second()
{
    close_gate
    : >started
    port=$(free_port)
    began=$(now_ms)
    nodes "a b" --nnodes=1:3 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=last_call_timeout="$1",heartbeat_timeout="$2" "$WORKER" gate
    wait_round 1 2
    took=$(took_to 1)
    [ $took -ge 900 ] || fail "sealed after $took ms, with $1 and $2 s"
    in_time 1500 "$took" 'the round'
    open_gate
    all_end 0 a b
}
sealed_after_a_second 1 0.5
sealed_after_a_second 0 1
