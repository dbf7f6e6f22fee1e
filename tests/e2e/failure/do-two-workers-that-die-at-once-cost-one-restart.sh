#!/bin/sh
# Two workers of different nodes, and then all workers of all nodes, are killed
# at the same moment, with two restarts allowed: is each of it one restart?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
port=$(free_port)
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=2 \
    --rdzv_endpoint="127.0.0.1:$port" ./careful
wait_round 1 4
began=$(now_ms)
kill -KILL "$(worker_of 0 1)" "$(worker_of 3 1)"
wait_round 2 4
measured "two workers on two nodes killed at once: $(took_to 2) ms"
same '1 ' "$(values restarts 2)" restarts
began=$(now_ms)
# shellcheck disable=SC2046 # pids
kill -KILL $(workers_on a 2) $(workers_on b 2)
wait_round 3 4
measured "all four killed at once: $(took_to 3) ms"
same '2 ' "$(values restarts 3)" restarts
open_gate
all_end 0 a b
same 3 "$(newest_round)" rounds
none_overlap
nothing_left
