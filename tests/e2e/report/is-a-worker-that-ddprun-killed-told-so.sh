#!/bin/sh
# A worker does not stop after SIGTERM, and its launcher kills it when
# --shutdown_timeout is over. Does the report of every node say so, and not that
# the worker died by SIGKILL? And what of one that somebody else kills?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
for name in a b; do
    node $name --nnodes=2 --nproc_per_node=2 --shutdown_timeout=1 \
        --rdzv_endpoint="127.0.0.1:$port" --report=report-$name sh -c '
        [ "$RANK" = 1 ] && exec "$0" stubborn
        [ "$RANK" = 3 ] && exec "$0" always 3 7
        exec "$0" hold' "$WORKER"
done
all_end 7 a b
for name in a b; do
    has 'first failure   rank 3 .*: exit code 7' $name.err
    has 'rank 1 on .*: killed by ddprun, since it did not stop in time (SIGKILL)$' \
        $name.err
    has 'rank 0 on .*: stopped (SIGTERM)$' $name.err
    has_not 'signal 9' $name.err
    python3 - report-$name <<'PY' || fail "the JSON of $name is not right"
import json, sys
ends = json.load(open(sys.argv[1]))["consequences"]
assert {(c["rank"], c["signal"], c["killed_by_ddprun"]) for c in ends} == {
    (0, 15, False), (1, 9, True), (2, 15, False)}, ends
PY
done
nothing_left
