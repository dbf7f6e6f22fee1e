#!/bin/sh
# --scale_interval=4: the second node makes the world larger at once, the third
# and the fourth, which come right after it, together and later.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
start_node()
{
    node "$1" --nnodes=1:4 --scale_interval=4 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=last_call_timeout=0 "$WORKER" hold
}
start_node a
wait_round 1 1
began=$(now_ms)
start_node b
wait_round 2 2
took=$(took_to 2)
measured "the first late node runs with the others: $took ms"
in_time 2000 "$took" 'the round with the first late node'
start_node c
wait_for 'this node joins it in' c.err
start_node d
wait_for 'this node joins it in' d.err
wait_round 3 4
took=$(took_to 3)
measured "the next two run with the others: $took ms after the first"
[ "$took" -ge 3500 ] || fail "they were taken after $took ms"
lines 4 '^round=3 .*world=4' started
lines 0 '^round=4 ' started
same '0 ' "$(values restarts 3)" restarts
kill -INT "$(pid_of a)"
all_end 130 a b c d
nothing_left
