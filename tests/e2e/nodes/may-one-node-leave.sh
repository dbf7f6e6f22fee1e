#!/bin/sh
# SIGTERM to one of two launchers with --nnodes=1:2: do its workers get the
# signal, does it end with 143, and does the other one go on without a charge?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
for name in a b; do
    node $name --nnodes=1:2 --nproc_per_node=2 \
        --rdzv_endpoint="127.0.0.1:$port" "$WORKER" report
    wait_listener "$port"
done
wait_round 1 4
began=$(now_ms)
kill -TERM "$(pid_of b)"
ends_with 143 b
wait_round 2 2
measured "one of two leaves, the other's workers run again: $(took_to 2) ms"
same '0 ' "$(values restarts 2)" restarts
same '01' "$(ranks_on a 2)" ranks
lines 4 '^term ' terms
nothing_left b
# The one that is left is the host of the rendezvous, and goes too.
kill -TERM "$(pid_of a)"
ends_with 143 a
nothing_left
