# What the questions of tests/mpi share; each begins with
#     . "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
# and is asked of one library, $MPI, whose programs are in $MPI_PROGRAMS.
# shellcheck shell=sh disable=SC2034,SC2154
. "${E2E_LIB:?is set by tests/mpi/run}/lib.sh"
. "$MPI_TESTS/lib/libraries.sh"
mpi_library "$MPI" "$MPI_ROOT" || fail "there is no library $MPI"
BASICS=$MPI_PROGRAMS/basics
MPI_PYTHON=$MPI_ROOT/python/bin/python
# mpi4py asks for MPICH's library by the name that all but Debian give it.
[ "$MPI" != mpich4 ] || {
    ln -s "$(ldd "$BASICS" | awk '/libmpich/ { print $3 }')" libmpi.so.12
    export LD_LIBRARY_PATH="$E2E_DIR"
}
# 4.0.2 can hang in MPI_Finalize between nodes, under its own launcher as well:
# https://github.com/pmodels/mpich/pull/6596
[ "$MPI" = mpich4 ] && over_nodes=0 || over_nodes=1

# right ROUND SIZE FILE: what the program prints if all is well is there.
right()
{
    _sum=$(($2 * ($2 - 1) / 2)) _average=$(echo "$2" | awk '{ print ($1 - 1) * 0.75 }')
    has "^round $1: sum $_sum, broadcast $(($2 * 4711)), average $_average, of $2, 0 in the wrong place$" "$3"
}

# here STATUS [OPTION...] PROGRAM...: a launcher in front, as node `it`.
here()
{
    _status=$1
    shift
    node it "$mpi_option" "$@"
    ends_with "$_status" it 30
}

# begin NAME NNODES WORKERS [OPTION...]: the program in $program on that machine, with
# what is in $options.
begin()
{
    _machine=$1 _nnodes=$2 _workers=$3
    shift 3
    # shellcheck disable=SC2086 # words
    node_on "$_machine" "$_machine" "$mpi_option" --nnodes="$_nnodes" \
        --rdzv_backend=c10d --rdzv_endpoint=na:29500 \
        --nproc_per_node="$_workers" "$@" $options $program
}

# start NNODES WORKERS...: on machines na, nb and so on, with so many workers.
start()
{
    _all=$1 _i=0
    shift
    for _each in "$@"; do
        begin "n$(echo abcdefgh | cut -c $((_i + 1)))" "$_all" "$_each" \
            --node_rank=$_i
        _i=$((_i + 1))
    done
}
options=
