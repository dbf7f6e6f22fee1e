#!/bin/sh
# May nodes bring different numbers of workers, and is --node_rank honoured
# under c10d whatever the order of arrival?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node late --nnodes=2 --nproc_per_node=2 --node_rank=1 --rdzv_backend=c10d \
    --role=helper --rdzv_endpoint="localhost:$port" "$WORKER" gate
wait_for 'waiting: ' late.err
node first --nnodes=2 --nproc_per_node=4 --node-rank=0 --rdzv-backend=c10d \
    --rdzv_endpoint="localhost:$port" sh -c '
    echo "$RANK $ROLE_RANK/$ROLE_WORLD_SIZE" >>"$E2E_DIR/roles"
    exec "$0" gate' "$WORKER"
# The programs differ: sh is not worker.
end_of first
[ "$STATUS" -eq 65 ] || fail "another program was let in: $STATUS"
has "started with the program 'sh', run 'none' has 'worker'" first.err
node first --nnodes=2 --nproc_per_node=4 --node-rank=0 --rdzv-backend=c10d \
    --rdzv_endpoint="localhost:$port" "$WORKER" gate
wait_round 1 6
same 0123 "$(ranks_on first 1)" 'ranks of --node_rank=0'
same 45 "$(ranks_on late 1)" 'ranks of --node_rank=1'
same '6 ' "$(values world 1)" 'world size'
open_gate
all_end 0 first late
