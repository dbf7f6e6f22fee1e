#!/bin/sh
# With --nnodes=2 and one node killed: does the other wait, say so, and go on
# with a launcher that takes the place?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
rank=0
for name in a b; do
    node $name --nnodes=2 --nproc_per_node=2 --node_rank=$rank \
        --rdzv_backend=c10d --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
    wait_listener "$port"
    rank=1
done
wait_round 1 4
kill -KILL "$(pid_of b)"
ends_with 137 b
nothing_left b
wait_for '1 of 2 nodes joined ([^)]*) in [0-9]* s; run ddprun on 1 more node with' a.err
same 4 "$(grep -c '^round=' started)" 'workers that have started'
began=$(now_ms)
node c --nnodes=2 --nproc_per_node=2 --node_rank=1 \
    --rdzv_backend=c10d --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 2 4
measured "a replacement is started, all workers run: $(took_to 2) ms"
same "$(ranks_on a 1)" "$(ranks_on a 2)" 'ranks of the survivor'
same "$(ranks_on b 1)" "$(ranks_on c 2)" 'ranks of the replacement'
same '0 ' "$(values restarts 2)" 'restarts'
open_gate
all_end 0 a c
