#!/bin/sh
# The kernel kills a worker since the memory of its cgroup has run out: does the
# report say so, and not of one that somebody killed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
memory_group 64

# shellcheck disable=SC2016 # for the shell
background it ./in_group "$DDPRUN" --nproc_per_node=2 \
    --report=report sh -c '[ "$RANK" = 1 ] || exec sleep 300
    echo "allocating" >&2
    exec python3 -c "x = b\"x\" * 500_000_000"'
ends_with 137 it 30
has 'signal 9 (SIGKILL), by the kernel: out of memory' it.err
has '| allocating' it.err
has '"out_of_memory":.*true' report

# shellcheck disable=SC2016
background it ./in_group "$DDPRUN" sh -c 'kill -KILL $$$$'
ends_with 137 it
has 'signal 9 (SIGKILL)$' it.err
