#!/bin/sh
# Does the report name host, rank, status or signal, pid, time and the worker's
# own words, and does the workers' output come through untouched?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# The launcher makes one dollar of two.
# shellcheck disable=SC2016 # for the worker
launch 139 --nproc_per_node=3 --max_restarts=0 sh -c '
    echo "out $RANK"
    echo "err $RANK" >&2
    [ "$RANK" = 2 ] || exec sleep 300
    echo "pid $$$$" >>"$E2E_DIR/pids"
    echo "{\"message\": {\"message\": \"ValueError: no such shard\",
        \"extraInfo\": {\"timestamp\": \"1\"}}}" >"$TORCHELASTIC_ERROR_FILE"
    kill -SEGV $$$$'
pid=$(sed -n 's/^pid //p' pids)
has "rank 2 on $(hostname) (local rank 2, pid $pid): signal 11 (SIGSEGV)" it.err
has 'ValueError: no such shard' it.err
has "$(date +%Y-%m-%dT%H):" it.err
has '139' it.err
lines 1 '^err 2$' it.err
has '^out 2$' it.out
has_not ddprun it.out

launch 0 --nproc_per_node=2 sh -c 'head -c 3000000 /dev/zero'
same 6000000 "$(wc -c <it.out)" 'bytes of output'
