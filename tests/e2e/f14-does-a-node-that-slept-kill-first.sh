#!/bin/sh
# A node's clock jumps by ten minutes, as after a suspend: are its workers dead
# at once, and does it come back into a new round without a charge?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v cc >/dev/null || skip 'needs cc'
cat >jump.c <<'C'
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What a suspend does to the clocks: CLOCK_BOOTTIME goes on, others do not. */
int clock_gettime(clockid_t clock, struct timespec *at)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_BOOTTIME && access(getenv("JUMP"), F_OK) == 0)
        at->tv_sec += 600;
    return rc;
}
C
cc -shared -fPIC -o jump.so jump.c || skip 'cc makes no library'
port=$(free_port)
node a --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_listener "$port"
background b env LD_PRELOAD="$E2E_DIR/jump.so" JUMP="$E2E_DIR/slept" \
    "$DDPRUN" --nnodes=1:2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_round 1 2
worker=$(workers_on b 1)
sleep 0.5
began=$(now_ms)
: >slept
eventually 5 is_gone "$worker" || fail 'a worker outlives its lease'
took=$(took)
measured "worker dead $took ms after the clock had jumped"
[ $took -lt 400 ] || fail "the worker lived on for $took ms" # a beat is 200 ms
wait_for 'the workers are killed' b.err
eventually 10 has_lines 1 '^round=[2-9] .* groups=2 .* node=b ' started ||
    fail 'the node does not come back'
lines 0 '^round=.* restarts=[1-9]' started
open_gate
ends_with 0 a
ends_with 0 b
nothing_left
