#!/bin/sh
# Where a process may have a stack of 128 KiB only (ulimit -s), does a job with its
# own rendezvous start, restart and end as elsewhere? With less nothing starts.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

(ulimit -s 127 && exec "$DDPRUN" --standalone true) 2>small.err &&
    fail 'a stack of 127 KiB is taken'
has 'a stack of 127 KiB .*ulimit -s 8192' small.err
ulimit -s 128 || fail 'the stack cannot be limited'
launch 0 --max_restarts=1 --nproc_per_node=2 sh -c '
    ulimit -s
    [ "$RANK" = 0 ] || exec sleep 0.1
    [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'
has '^128$' it.out
has 'round 2' it.err
has_not 'a bug of ddprun' it.err
nothing_left
