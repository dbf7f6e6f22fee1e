#!/bin/sh
# Is a worker that ignores SIGTERM killed after its grace, and one that obeys not
# kept waiting?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

node it --nproc_per_node=3 --failure_grace=1 --max_restarts=1 sh -c '
    [ "$RANK" != 0 ] || exec "$0" hold
    [ "$RANK" != 1 ] || exec "$0" report
    exec "$0" stubborn' "$WORKER"
wait_round 1 3
eventually 30 grep -q '^SigIgn:.*[4-7c-f]...$' "/proc/$(worker_of 2 1)/status"
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
wait_round 2 3
took=$(took)
[ "$took" -ge 950 ] || fail "the stubborn one had only $took ms"
in_time 2500 "$took" 'the next round'
lines 1 '^term rank=1 ' terms
at=$(sed -n 's/^term .* at=//p' terms)
in_time 500 $((at - began)) 'the signal to the obedient one'
has 'killing workers that did not stop' it.err
kill -TERM "$(pid_of it)"
kill -TERM "$(pid_of it)"
ends_with 143 it
nothing_left
