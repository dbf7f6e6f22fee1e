#!/bin/sh
# The kernel kills a worker since the memory of its cgroup has run out: does the
# report say so, and not of one that somebody killed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

need_root 'to make a cgroup'
command -v python3 >/dev/null || skip 'needs python3'
name=ddpe2e$$
if mkdir /sys/fs/cgroup/memory/$name 2>/dev/null; then
    group=/sys/fs/cgroup/memory/$name
    limit=memory.limit_in_bytes
elif grep -qsw memory /sys/fs/cgroup/cgroup.subtree_control &&
    mkdir /sys/fs/cgroup/$name 2>/dev/null; then
    group=/sys/fs/cgroup/$name
    limit=memory.max
else
    skip 'no memory cgroup can be made here'
fi
trap 'cleanup; rmdir "$group"' EXIT
echo $((64 * 1024 * 1024)) >"$group/$limit" || skip 'no limit can be set'
[ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
# shellcheck disable=SC2016 # for the shell
in_group='echo $$ >"$0/cgroup.procs" && exec "$@"'

background it sh -c "$in_group" "$group" "$DDPRUN" --nproc_per_node=2 \
    --report=report sh -c '[ "$RANK" = 1 ] || exec sleep 300
    echo "allocating" >&2
    exec python3 -c "x = b\"x\" * 500_000_000"'
ends_with 137 it 20
has 'signal 9 (SIGKILL), by the kernel: out of memory' it.err
has '| allocating' it.err
has '"out_of_memory":.*true' report

# shellcheck disable=SC2016
background it sh -c "$in_group" "$group" "$DDPRUN" sh -c 'kill -KILL $$$$'
ends_with 137 it
has 'signal 9 (SIGKILL)$' it.err
