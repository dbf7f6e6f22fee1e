#!/bin/sh
# limit: 180
# If the last rank ends before MPI_Init, is killed after it or while the others
# wait for it in a collective, ends without MPI_Finalize, calls MPI_Abort, writes
# nonsense to its PMI descriptor, or fails after MPI_Finalize: does the round end at
# once, with it as the first failure and with its code, on one node and over
# nodes, and has the next round the right numbers? Is one that never calls
# MPI_Init found by --hang_timeout?
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"

# fails HOW STATUS TEXT: on one node.
fails()
{
    here "$2" --nproc_per_node=2 "$BASICS" "$1"
    has "first failure   rank 1 .*: $3" it.err
    nothing_left
}
fails exit 5 'exit code 5'
fails absent 1 'exit code 1'
has 'error .* it ended with 0 and without MPI_Init' it.err
fails kill 137 'signal 9 (SIGKILL)'
fails collective 137 'signal 9 (SIGKILL)'
fails early 1 'exit code 1'
has 'error .* it ended with 0 after MPI_Init, but without MPI_Finalize' it.err
fails abort 42 'exit code 42'
has 'error .* MPI_Abort was called with code 42' it.err
fails late 3 'exit code 3'
[ "$mpi_protocol" = pmix ] || {
    fails junk 76 'exit code 76'
    has "rank 1: a line that is no PMI command: 'hello'" it.err
}
# Rank 0's library says nothing either, so it may be the first.
node hangs "$mpi_option" --nproc_per_node=2 --hang_timeout=2 "$BASICS" never
ends_with 82 hangs 40
has 'no progress for [2-9]' hangs.err
nothing_left

[ $over_nodes = 1 ] || exit 0
network na nb
# again HOW WORKERS FILE TEXT: over nodes; the next round is right.
again()
{
    program="$BASICS $1"
    start 2 2 "$2"
    ends_with 0 na 30
    ends_with 0 nb 30
    has "round 1: rank .*: $4" "$3.err"
    right 2 $((2 + $2)) na.out
    nothing_left
}
options=--max_restarts=1
again exit 1 nb 'exit code 5'
again absent 1 na 'exit code 72'
again collective 2 nb 'signal 9 (SIGKILL)'
again early 2 nb 'exit code 1'
again abort 2 nb 'exit code 42'
[ "$mpi_protocol" = pmix ] || again junk 1 nb 'exit code 76'
