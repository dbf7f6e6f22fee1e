#!/bin/sh
# Does SIGKILL of one worker restart all of them, with the restart count one
# higher, and is the world the same again?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

node it --nproc_per_node=4 --max_restarts=3 "$WORKER" gate
wait_round 1 4
killed=$(worker_of 2 1)
began=$(now_ms)
kill -KILL "$killed"
wait_round 2 4
measured "killed, then all four again: at most $(took) ms"
lines 4 '^round=2 .* world=4 .* restarts=1 ' started
same '0123' "$(ranks_on it 2)" ranks
# The instance is the same, the store's port too, and no old worker is left.
same "$(values instance 1)" "$(values instance 2)" instance
same "$(values master 1)" "$(values master 2)" master
for pid in $(sed -n 's/^round=1 .* pid=\([0-9]*\) .*/\1/p' started); do
    is_gone "$pid" || fail "worker $pid of round 1 lives"
done
has "rank 2 (pid $killed): signal 9" it.err
open_gate
ends_with 0 it
nothing_left
