#!/bin/sh
# When a worker fails, are the processes that the workers started gone before
# the next attempt begins, even those that left the session?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

node it --nproc_per_node=2 --max_restarts=1 "$WORKER" family
wait_round 1 2
wait_lines 2 family families
eventually 30 sleepers 10 || fail 'the families are not complete'
marked >before
kill -KILL "$(worker_of 0 1)"
wait_round 2 2
for pid in $(cat before); do
    case $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) in
    'sleep 300 ') fail "$pid of the first attempt lives" ;;
    esac
done
wait_lines 4 family families
eventually 30 sleepers 10 || fail 'not the families of the second attempt alone'
kill -KILL "$(worker_of 1 2)"
ends_with 137 it
nothing_left
