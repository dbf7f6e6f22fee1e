#!/bin/sh
# Do workers that are stopped (SIGSTOP) keep a restart or the end from coming?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

node it --nproc_per_node=3 --max_restarts=1 --failure_grace=20 "$WORKER" hold
wait_round 1 3
kill -STOP "$(worker_of 1 1)" "$(worker_of 2 1)"
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
wait_round 2 3
in_time 2000 "$(took)" 'the restart, without the grace'
kill -STOP "$(worker_of 1 2)"
kill -ABRT "$(worker_of 0 2)"
ends_with 134 it
nothing_left
