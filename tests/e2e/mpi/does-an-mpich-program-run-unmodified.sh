#!/bin/sh
# Do send and receive, broadcast and gather of an MPICH program have the right
# numbers, with 1 and 5 ranks on one node? Is a spawn refused, and is the
# program a world of one without --mpi?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v mpicc >/dev/null || skip 'needs mpicc: scripts/setup.sh --mpi'
mpicc -o basics "$E2E_LIB/mpi_basics.c" >mpicc.err 2>&1 || fail 'mpicc fails'

for n in 1 5; do
    launch 0 --mpi=pmi1 --nproc_per_node=$n ./basics well
    same "attempt 0: sum $((n * (n - 1) / 2)), broadcast $((n * 4711)), \
average $(echo "$n" | awk '{ print ($1 - 1) * 0.75 }'), of $n; spawn refused" \
        "$(cat it.out)" "$n ranks"
    nothing_left
done

launch 0 --nproc_per_node=2 env
has_not '^PMI_' it.out
has_not '^MPI_LOCAL' it.out
