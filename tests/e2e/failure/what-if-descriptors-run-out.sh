#!/bin/sh
# With few descriptors: a launcher that has enough for its workers runs; one
# that has not says so, ends with a status of its own, and leaves nothing.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

limited()
{
    (
        no_look_for_leaks
        ulimit -n "$1" && shift &&
            exec env "E2E_MARK=$E2E_DIR:it" "$DDPRUN" "$@"
    ) >it.out 2>it.err 9<&-
}
limited 64 --nproc_per_node=4 true || fail "4 workers with 64 descriptors: $?"
limited 64 --nproc_per_node=200 "$WORKER" hold
status=$?
[ $status -eq 71 ] || fail "200 workers with 64 descriptors: $status"
has 'Too many open files\|too many open files' it.err
nothing_left
limited 8 --nproc_per_node=1 true
status=$?
[ $status -ne 0 ] || fail 'with 8 descriptors?'
[ -s it.err ] || fail 'not a word'
nothing_left
# Enough for the launcher, and not for the rendezvous: said once, at once.
limited 24 true
status=$?
[ $status -eq 71 ] || fail "with 24 descriptors: $status"
lines 1 'the rendezvous needs 40 or more' it.err
lines 1 'cannot serve the rendezvous on this node$' it.err
nothing_left
# Whatever it is that cannot be opened, the status is the same.
for number in 12 14 16 18 20 22; do
    limited $number true
    status=$?
    [ $status -eq 71 ] || fail "with $number descriptors: $status"
    [ -s it.err ] || fail "with $number descriptors: not a word"
done
nothing_left
# Two nodes, where one runs out: both end.
port=$(free_port)
node a --nnodes=2 --nproc_per_node=1 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
limited 64 --nnodes=2 --nproc_per_node=200 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" hold
status=$?
[ $status -eq 71 ] || fail "two nodes, one short of descriptors: $status"
ends_with 71 a
nothing_left
