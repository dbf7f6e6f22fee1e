#!/bin/sh
# Does the static backend give each node the group rank that it asks for,
# whatever comes first, with a store for all?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node b --nnodes=2 --nproc_per_node=2 --node_rank=1 --master_addr=127.0.0.1 \
    --master_port="$port" "$WORKER" gate
node a --nnodes=2 --nproc_per_node=2 --node_rank=0 --master_addr=127.0.0.1 \
    --master_port="$port" "$WORKER" gate
wait_round 1 4
same 01 "$(ranks_on a 1)" 'ranks of node 0'
same 23 "$(ranks_on b 1)" 'ranks of node 1'
same 1 "$(values master 1 | wc -w)" masters
master=$(values master 1)
if command -v python3 >/dev/null; then
    python3 "$E2E_LIB/tcpstore.py" "${master%:*}" $((${master##*:})) x \
        >store.out 2>&1 || fail "no store at $master: $(cat store.out)"
fi
open_gate
all_end 0 a b
