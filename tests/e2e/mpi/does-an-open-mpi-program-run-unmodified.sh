#!/bin/sh
# Does an Open MPI program find its ranks by PMIx, on one node with --mpi=auto,
# and on nodes of one and of two? If a rank is killed after MPI_Init, does the
# next round have a name space of its own? Is its user told without --mpi, and
# with the wrong one, once on all nodes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v mpicc.openmpi >/dev/null || skip 'needs mpicc.openmpi: scripts/setup.sh --mpi'
mpicc.openmpi -o basics "$E2E_LIB/mpi_basics.c" >mpicc.err 2>&1 || fail 'mpicc fails'

launch 0 --mpi=auto --nproc_per_node=3 ./basics well
same 'round 1: sum 3, broadcast 14133, average 1.5, of 3, 0 in the wrong place' \
    "$(grep round it.out)" '3 ranks'
has_not 'asked for MPI' it.err
nothing_left

port=$(free_port)
for i in 0 1; do
    node n$i --mpi=pmix --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=is_host=$((i == 0)) --node_rank=$i --rdzv_backend=c10d \
        --nproc_per_node=$((i + 1)) --max_restarts=1 ./basics kill
    [ $i -gt 0 ] || wait_listener "$port"
done
ends_with 0 n0 40
ends_with 0 n1 40
same 'round 2: sum 3, broadcast 14133, average 1.5, of 3, 0 in the wrong place' \
    "$(grep round n0.out)" '1 and 2 ranks'
has 'rank 2 (pid [0-9]*): signal 9' n1.err
nothing_left

launch 0 --nproc_per_node=2 ./basics
lines 2 '^round 1: .* of 1, ' it.out
lines 1 'ddprun: basics names MPI (libmpi.so.40), and without --mpi=auto' it.err

port=$(free_port)
for i in 0 1; do
    node n$i --mpi=pmi1 --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=is_host=$((i == 0)) --node_rank=$i --rdzv_backend=c10d ./basics
    [ $i -gt 0 ] || wait_listener "$port"
done
ends_with 0 n0 40
ends_with 0 n1 40
lines 1 '^round 1: .* of 1, ' n0.out
lines 1 'asked for MPI by PMI-1; an Open MPI program needs --mpi=pmix or auto, and' n0.err
has_not 'asked for MPI' n1.err
