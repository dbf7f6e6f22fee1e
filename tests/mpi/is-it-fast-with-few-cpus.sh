#!/bin/sh
# limit: 120
# With four ranks on two CPUs: do many small all-reduces take no more than 1.2 times
# what they take under the library's own launcher, the medians of pairs in turn? Five
# pairs; on a busy machine fewer, but three, in MPI_PAIRS_S=40 seconds.
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
command -v taskset >/dev/null || skip 'needs taskset'

# The first two CPUs that we may use.
cpus=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
    while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done |
    head -n 2 | paste -sd,)
how=$mpi_option
case $MPI in
openmpi*) count=10000 own='--oversubscribe -np 4' ;;
# Its ranks do not give way, and take a share of the CPUs each by turns.
mpich*) count=100 own='-n 4' ;;
*) count=2000 own="-n 4" how=--mpi=auto ;;
esac

# reduces NAME COMMAND...: adds the ms to the file NAME.
reduces()
{
    background "$@" "$BASICS" reduce $count
    ends_with 0 "$1" 60
    has '^4 of 4, ' "$1.out"
    sed -n 's/^4 of 4, \(.*\) ms$/\1/p' "$1.out" >>"$1.ms"
}

median()
{
    sort -n "$1" | sed -n "$((($(wc -l <"$1") + 1) / 2))s/\..*//p"
}

until=$(($(date +%s) + ${MPI_PAIRS_S:-40}))
for pair in 1 2 3 4 5; do
    [ $pair -le 3 ] || [ "$(date +%s)" -lt $until ] || break
    # shellcheck disable=SC2086 # words
    reduces own taskset -c "$cpus" "$mpi_own" $own
    reduces ours taskset -c "$cpus" "$DDPRUN" "$how" --nproc_per_node=4
done
measured "$MPI: $count all-reduces: $(median ours.ms) ms, under its own launcher" \
    "$(median own.ms) ms ($(wc -l <own.ms) pairs)"
in_time $(($(median own.ms) * 12 / 10 + 20)) "$(median ours.ms)" 'the median'
nothing_left
