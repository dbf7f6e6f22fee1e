#!/bin/sh
# A node's clock jumps by ten minutes, as after a suspend: are its workers dead
# at once, and does it come back into a new round without a charge?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

clock_library
port=$(free_port)
node a --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_listener "$port"
background b env LD_PRELOAD="$E2E_DIR/clock.so" CLOCKS="$E2E_DIR/clocks" \
    "$DDPRUN" --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_round 1 2
worker=$(workers_on b 1)
sleep 0.5
began=$(now_ms)
echo '7 600' >clocks # CLOCK_BOOTTIME goes on in a suspend, others do not
eventually 30 is_gone "$worker" || fail 'a worker outlives its lease'
took=$(took)
measured "worker dead $took ms after the clock had jumped"
in_time 400 "$took" 'the death of the worker' # a beat is 200 ms
wait_for 'the workers are killed' b.err
eventually 30 has_lines 1 '^round=[2-9] .* groups=2 .* node=b ' started ||
    fail 'the node does not come back'
lines 0 '^round=.* restarts=[1-9]' started
open_gate
all_end 0 a b
nothing_left
