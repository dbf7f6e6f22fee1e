#!/bin/sh
# limit: 120
# With four ranks on two CPUs: do many small all-reduces take no more than 1.2 times
# what they take under the library's own launcher, the medians of pairs in turn? Three
# pairs say so, or more do, for at most MPI_PAIRS_S=60 seconds: a single pair is up to
# half as slow again where something else has a CPU for a moment.
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
command -v taskset >/dev/null || skip 'needs taskset'

# The first two CPUs that we may use.
cpus=$(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
    while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done |
    head -n 2 | paste -sd,)
how=$mpi_option count=10000
case $MPI in
openmpi*) own='--oversubscribe -np 4' ;;
# Its ranks do not give way, and take a share of the CPUs each by turns.
mpich*) count=100 own='-n 4' ;;
*) own='-n 4' how=--mpi=auto ;;
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

most()
{
    echo $(($(median own.ms) * 12 / 10 + 20))
}

until=$(($(date +%s) + ${MPI_PAIRS_S:-60})) pair=0
while :; do
    # shellcheck disable=SC2086 # words
    reduces own taskset -c "$cpus" "$mpi_own" $own
    reduces ours taskset -c "$cpus" "$DDPRUN" "$how" --nproc_per_node=4
    pair=$((pair + 1))
    [ $pair -ge 3 ] || continue
    [ "$(median ours.ms)" -gt "$(most)" ] && [ "$(date +%s)" -lt $until ] || break
done
measured "$MPI: $count all-reduces: $(median ours.ms) ms, under its own launcher" \
    "$(median own.ms) ms ($pair pairs)"
in_time "$(most)" "$(median ours.ms)" 'the median'
nothing_left
