#!/bin/sh
# The machine sleeps for ten minutes, its workers with it: is that time in which
# they made no progress? A worker that hangs afterwards is found as ever. (Their
# lease is longer than that, or they would be killed.)
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

clock_library
# start TIMEOUT: a worker that says nothing until the gate opens.
start()
{
    rm -f clocks begun
    # shellcheck disable=SC2016 # for the worker
    background it env LD_PRELOAD="$E2E_DIR/clock.so" CLOCKS="$E2E_DIR/clocks" \
        "$DDPRUN" --hang_timeout="$1" --rdzv_conf=heartbeat_timeout=3600 \
        sh -c 'echo >>"$E2E_DIR/begun"
        read -r line <"$E2E_DIR/gate"'
    wait_for '^$' begun
    sleep 0.3
    echo '7 600' >clocks # CLOCK_BOOTTIME goes on in a suspend, others do not
}
start 4 # looked at each 0.2 s
sleep 1.5
open_gate
ends_with 0 it
has_not 'progress' it.err
close_gate
start 1
ends_with 82 it
has 'no progress for [1-9]\(\.[0-9]*\)\{0,1\} s' it.err
nothing_left
