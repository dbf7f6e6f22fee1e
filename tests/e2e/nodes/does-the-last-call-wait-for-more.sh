#!/bin/sh
# --nnodes=1:3: is the first round sealed when the last call is over, or at once
# when all have come?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
began=$(now_ms)
for name in a b; do
    node $name --nnodes=1:3 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=last_call_timeout=1 "$WORKER" gate
done
wait_round 1 2
took=$(took_to 1)
[ $took -ge 900 ] || fail "sealed after $took ms, before the last call was over"
in_time 1500 "$took" 'the round'
open_gate
ends_with 0 a
ends_with 0 b
