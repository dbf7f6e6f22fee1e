#!/bin/sh
# limit: 90
# Do send and receive, broadcast and gather have the right numbers, and does each
# rank find those of its node by MPI, on one node, two, three, and unequal ones?
# Does MPI_Comm_spawn return an error, which the launcher explains? Is it the same
# with --mpi=auto? Does a binary that nobody here compiled (Intel's benchmarks) run
# as it is?
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"

here 0 --nproc_per_node=1 "$BASICS"
right 1 1 it.out
# Intel's dies of SIGSEGV in MPI_Comm_spawn before it asks.
[ "$MPI" = intel ] && how=well || how=spawn
here 0 --nproc_per_node=4 "$BASICS" $how
right 1 4 it.out
[ $how = well ] || {
    has '^spawn: .*\(Other MPI error\|MPI_ERR_\)' it.out
    # MPICH 4 and Open MPI 5 refuse it before they ask.
    case $MPI in mpich5 | openmpi4) has 'rank 0: MPI_Comm_spawn is refused' it.err ;; esac
}
nothing_left
served=$mpi_option mpi_option=--mpi=auto
here 0 --nproc_per_node=2 "$BASICS"
right 1 2 it.out
mpi_option=$served
imb=$MPI_ROOT/intel/bin/IMB-MPI1
[ "$MPI" != intel ] || {
    here 0 --nproc_per_node=2 "$imb" -msglog 4 -iter 10 PingPong
    has '# #processes = 2' it.out
    has '^ *16 *10 ' it.out
}
[ $over_nodes = 1 ] || exit 0

network na nb nc
program=$BASICS
# world WORKERS...
world()
{
    size=0
    start $# "$@"
    for name in na nb nc; do
        [ $# -gt 0 ] || break
        ends_with 0 $name 30
        size=$((size + $1))
        shift
    done
    right 1 $size na.out
    nothing_left
}
world 2 2
world 2 2 2
world 1 3
world 2 1 2
mpi_option=--mpi=auto
world 1 2
