#!/bin/sh
# Sixteen launchers that start at the same moment: does exactly one serve, and
# do all end up in one world?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
began=$(now_ms)
names=$(seq -f 'n%g' 1 16)
nodes "$names" --nnodes=16 --nproc_per_node=2 --max_restarts=1 \
    --rdzv_endpoint="localhost:$port" "$WORKER" gate
wait_round 1 32 30
measured "16 launchers started, all 32 workers run: $(took_to 1) ms"
same "$(seq 0 31)" \
    "$(sed -n 's/^round=1 rank=\([0-9]*\) .*/\1/p' started | sort -n)" ranks
same 1 "$(values instance 1 | wc -w)" instances
began=$(now_ms)
kill -KILL "$(worker_of 17 1)"
wait_round 2 32
measured "worker killed, 32 on 16 nodes run again: $(took_to 2) ms"
open_gate
# shellcheck disable=SC2086 # words
all_end 0 $names
nothing_left
