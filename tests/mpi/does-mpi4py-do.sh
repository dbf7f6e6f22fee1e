#!/bin/sh
# limit: 90
# Has a program with mpi4py the right numbers, over nodes and after an MPI_Abort,
# and do the tests of mpi4py itself pass that need no spawn (a part of them)?
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
[ -x "$MPI_PYTHON" ] && [ -d "$MPI_ROOT/suite" ] || skip 'mpi4py is not there'

program="$MPI_PYTHON $MPI_TESTS/lib/basics.py abort" options=--max_restarts=1
if [ $over_nodes = 1 ]; then
    network na nb nc
    start 3 2 2 2
    for name in na nb nc; do
        ends_with 0 $name 40
    done
    has 'round 1: rank 5 .*: exit code 42' nc.err
    right 2 6 na.out
else
    # shellcheck disable=SC2086 # words
    here 0 --nproc_per_node=2 $options $program
    has 'round 1: rank 1 .*: exit code 42' it.err
    right 2 2 it.out
fi
nothing_left
node suite "$mpi_option" --nproc_per_node=2 "$MPI_PYTHON" \
    "$MPI_ROOT/suite/test/main.py" --no-builddir -q -f \
    -i 'test_(cco_obj|comm|group|p2p_obj|win|pack|request|status|util_pkl5).py'
ends_with 0 suite 60
lines 2 '^OK' suite.err
measured "$MPI: $(sed -n 's/^.*\(Ran [0-9]* tests\).*/\1/p' suite.err | sort -u)"
nothing_left

# Four ranks on two CPUs, where those that wait have to give way.
if [ "$mpi_protocol" = pmix ]; then
    node few "$mpi_option" --nproc_per_node=4 "$MPI_PYTHON" \
        "$MPI_ROOT/suite/test/main.py" --no-builddir -q -f \
        -i 'test_(cco_obj|group|status).py'
    ends_with 0 few 60
    lines 4 '^OK' few.err
    nothing_left
fi
