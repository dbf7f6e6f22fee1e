#!/bin/sh
# One packet of eight is lost at random, each way, with default settings: do two
# nodes meet, is nobody taken for lost, and is a failure dealt with?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
careful_worker
network host other
lose other 13
nodes_on "host other" --nnodes=1:2 --nproc_per_node=2 \
    --max_restarts=1 --rdzv_endpoint=host:29500 ./careful
wait_world 4 0 30
# Leases of 5 s: two of them.
sleep 10.5
same 1 "$(newest_round)" 'newest round after 10 s'
for machine in host other; do has_not 'are killed' $machine.err; done
began=$(now_ms)
kill_worker 3 1
wait_world 4 1 30
measured "13 % lost each way: no false alarm in 10 s, a worker killed:" \
    "all run again after $(took_to 2) ms"
same '1 ' "$(values restarts 2)" restarts
open_gate
ends_with 0 host 30
ends_with 0 other 30
none_overlap
nothing_left
