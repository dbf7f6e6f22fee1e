#!/bin/sh
# If a rank ends before MPI_Init, is killed after it, ends with 0 and without
# MPI_Finalize, calls MPI_Abort, or writes nonsense to its PMI descriptor: does the
# round end at once with the right first failure, though the other one waits for ever?
# Does the next round run, with keys of its own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v mpicc.mpich >/dev/null || skip 'needs mpicc.mpich: scripts/setup.sh --mpi'
mpicc.mpich -o basics "$E2E_LIB/mpi_basics.c" >mpicc.err 2>&1 || fail 'mpicc fails'

# fails HOW STATUS TEXT
fails()
{
    launch "$2" --mpi=pmi1 --nproc_per_node=2 ./basics "$1"
    has "first failure   rank 1 .*: $3" it.err
    same '' "$(cat it.out)" "what rank 0 printed ($1)"
    nothing_left
}
fails exit 5 'exit code 5'
fails kill 137 'signal 9 (SIGKILL)'
fails early 1 'exit code 1'
has 'error .* it ended with 0 after MPI_Init, but without MPI_Finalize' it.err
fails junk 76 'exit code 76'
has "rank 1: a line that is no PMI command: 'hello'" it.err
fails abort 42 'exit code 42'
has 'error .* MPI_Abort was called with code 42' it.err

launch 0 --mpi=pmi1 --nproc_per_node=2 --max_restarts=1 ./basics abort
same 'round 2: sum 1, broadcast 9422, average 0.75, of 2, 0 in the wrong place' \
    "$(cat it.out)" 'the second round'
