#!/bin/sh
# Does a worker that dies on one node restart all on both, with the same count,
# and does the budget's end give both launchers its status and a report?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=2 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
wait_round 1 4
began=$(now_ms)
kill -KILL "$(worker_of 3 1)"
wait_round 2 4
measured "killed, then all four on two nodes again: $(took_to 2) ms"
same '1 ' "$(values restarts 2)" 'restart count'
# Failures on both nodes at one time are one failure.
kill -KILL "$(worker_of 0 2)" "$(worker_of 2 2)"
wait_round 3 4
same '2 ' "$(values restarts 3)" 'restart count'
same "$(ranks_on a 1)" "$(ranks_on a 3)" 'ranks of a'
pid=$(worker_of 1 3)
kill -QUIT "$pid"
all_end 131 a b
for name in a b; do
    has "rank 1 on $(hostname) (local rank 1, pid $pid): signal 3 (SIGQUIT)" \
        $name.err
    has 'restarts used *2 of 2' $name.err
done
lines 12 '^round=' started
nothing_left
