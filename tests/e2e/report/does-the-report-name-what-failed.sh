#!/bin/sh
# Does the report name host, rank, status or signal, pid, time and the worker's
# own words, and does the workers' output come through untouched?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

hour=$(date +%Y-%m-%dT%H)
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
has "\($hour\|$(date +%Y-%m-%dT%H)\):" it.err
has '139' it.err
lines 1 '^err 2$' it.err
has '^out 2$' it.out
has_not ddprun it.out

# What libstdc++ says if a program of gloo ends with its process group.
# shellcheck disable=SC2016 # for the worker
launch 134 sh -c 'echo "terminate called without an active exception" >&2
    kill -ABRT $$$$'
has '^ddprun:   error  .* torch.distributed.destroy_process_group()$' it.err
launch 134 sh -c 'kill -ABRT $$$$'
has_not destroy_process_group it.err

# Bytes that are no lines: those of one worker are not changed, nor are any that
# are inherited.
launch 0 sh -c 'head -c 3000000 /dev/zero'
same 3000000 "$(wc -c <it.out)" 'bytes of output'
launch 0 --stdout=inherit --nproc_per_node=2 sh -c 'head -c 3000000 /dev/zero'
same 6000000 "$(wc -c <it.out)" 'bytes of output of two'

# What @record wrote beside its message: shown beside stderr's last lines, but
# not where Python wrote the same there; in the JSON in any case.
# shellcheck disable=SC2016 # for the worker
said='printf "%s\\n" "$@" >&2
    echo "{\"message\": {\"message\": \"E: x\", \"extraInfo\":
        {\"py_callstack\": \"Traceback (most recent call last):\\nin main\\nE: x\\n\"}}}" \
        >"$TORCHELASTIC_ERROR_FILE"
    exit 1'
launch 1 --report=both.json bash -c "$said" bash 'something else'
has '^ddprun:   its last lines on stderr:$' it.err
has '^ddprun:     | something else$' it.err
has '^ddprun:   the traceback in its error file:$' it.err
has '^ddprun:     | in main$' it.err
has '^ddprun:   error           E: x$' it.err
launch 1 --report=once.json bash -c "$said" bash \
    'Traceback (most recent call last):' 'in <module>' 'in main' 'E: x'
has 'its last lines, on stderr and in its error file:$' it.err
lines 1 '^ddprun:     | in main$' it.err
for name in both once; do
    has '"traceback":.*Traceback (most recent call last):\\nin main\\nE: x' $name.json
done
has '"stderr":.*something else' both.json
has '"stderr":.*in <module>' once.json
