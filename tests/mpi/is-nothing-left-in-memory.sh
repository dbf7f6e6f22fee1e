#!/bin/sh
# limit: 150
# In a container's 64 MiB of /dev/shm: does a job with many rounds, in each of which a
# rank is killed, run in each, and is neither a segment in /dev/shm nor a session
# folder in TMPDIR left then? After one that ends well? And after guard, agent and
# PMIx server were killed at once? MPI_ROUNDS=N is how many of those that are killed.
[ "${INSIDE-}" ] || exec env INSIDE=1 unshare --mount "$0"
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
# Under its own launcher as well.
[ "$MPI" != mpich5 ] || skip 'ranks of MPICH 5 that are killed leave mpich_shm_*'
mount -t tmpfs -o size=64m tmpfs /dev/shm || fail 'no /dev/shm of its own'
mkdir tmp
export TMPDIR="$PWD/tmp"
case $MPI in
openmpi4) rounds=50 ;;
openmpi5) rounds=12 ;; # it takes a second for each, and 8 fill the 64 MiB
*) rounds=8 ;;
esac
rounds=${MPI_ROUNDS:-$rounds}

left()
{
    find /dev/shm "$TMPDIR" -mindepth 1
}

none_left()
{
    [ -z "$(left)" ]
}

nothing_in_memory()
{
    eventually 5 none_left || { left && fail "what is above is left $1"; }
}

here 0 --nproc_per_node=2 "$BASICS"
nothing_in_memory 'of a job that ended well'

cat >killed.sh <<'END'
#!/bin/sh
export DDP_ROUND=1 # in which the last rank is killed
exec "$@"
END
chmod +x killed.sh
node it "$mpi_option" --nproc_per_node=2 --max_restarts=$((rounds - 1)) \
    ./killed.sh "$BASICS" collective
ends_with 137 it 120
lines $rounds '^ddprun: round .*: signal 9 (SIGKILL)' it.err
has_not 'exit code' it.err
nothing_in_memory "after $rounds rounds"

node it "$mpi_option" --nproc_per_node=2 "$BASICS" loop
wait_for '^around: 1$' it.out 30
[ "$mpi_protocol" != pmix ] ||
    same '' "$(find /dev/shm "$TMPDIR" -type f ! -path '/dev/shm/ddprun*')" \
        'files of ranks that are not in the folder'
agent=$(agent_of it)
servers=
for comm in /proc/[0-9]*/comm; do
    dir=${comm%/comm}
    [ "$(cat "$comm" 2>/dev/null)" = ddprun-pmix ] || continue
    [ "$(sed -n 's/^PPid:[^0-9]*//p' "$dir/status")" != "$agent" ] ||
        servers=${dir#/proc/}
done
[ "$mpi_protocol" != pmix ] || [ -n "$servers" ] || fail 'no PMIx server is there'
# shellcheck disable=SC2086 # perhaps none
kill -9 "$(pid_of it)" "$agent" $servers
end_of it
nothing_left
nothing_in_memory 'after kill -9'
