#!/bin/sh
# Do send and receive, broadcast and gather of an MPICH program have the right
# numbers, with 1 and 5 ranks on one node? Is a spawn refused? Without --mpi,
# and with the wrong one, is the program a world of one, and its user told?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v mpicc.mpich >/dev/null || skip 'needs mpicc.mpich: scripts/setup.sh --mpi'
mpicc.mpich -o basics "$E2E_LIB/mpi_basics.c" >mpicc.err 2>&1 || fail 'mpicc fails'

for n in 1 5; do
    launch 0 --mpi=pmi1 --nproc_per_node=$n ./basics spawn
    same "round 1: sum $((n * (n - 1) / 2)), broadcast $((n * 4711)), \
average $(echo "$n" | awk '{ print ($1 - 1) * 0.75 }'), of $n, 0 in the wrong place" \
        "$(head -n 1 it.out)" "$n ranks"
    has '^spawn: Other MPI error' it.out
    has_not 'asked for MPI' it.err
    nothing_left
done

hint='names MPI'
launch 0 --nproc_per_node=2 ./basics
lines 2 '^round 1: .* of 1, ' it.out
lines 1 "ddprun: basics $hint (libmpich.so.12), and without --mpi=auto each" it.err
launch 0 --nproc_per_node=2 --mpi=none ./basics
has_not "$hint" it.err
launch 0 --nproc_per_node=2 --mpi=pmi1 ./basics
has_not "$hint" it.err

unused='ddprun: no worker of this node has asked for MPI by'
launch 0 --nproc_per_node=2 --mpi=pmix ./basics
lines 2 '^round 1: .* of 1, ' it.out
lines 1 "$unused PMIx; a program of MPICH or Intel MPI needs --mpi=pmi1" it.err

launch 0 --nproc_per_node=2 env
has_not '^PMI_' it.out
has_not '^MPI_LOCAL' it.out
