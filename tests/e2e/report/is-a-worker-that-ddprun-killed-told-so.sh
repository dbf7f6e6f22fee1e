#!/bin/sh
# A worker does not stop after SIGTERM, or after Ctrl-C, and its launcher kills it
# when --shutdown_timeout is over. Does the report of every node say so, and not
# that the worker died by SIGKILL? And of one that somebody else kills, or that a
# second Ctrl-C killed at once, is no such thing said?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'

# reported NAME WHAT: whether that holds of `ends`, those of the ranks beside the first
# failure's in the report of NAME: {rank: (signal, whether ddprun killed it)}.
reported()
{
    python3 - "report-$1" "$2" <<'PY' || fail "the report of $1 is not right"
import json, sys
ends = {c["rank"]: (c["signal"], c["killed_by_ddprun"])
        for c in json.load(open(sys.argv[1]))["consequences"]}
assert eval(sys.argv[2]), ends
PY
}

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
    reported $name 'ends == {0: (15, False), 1: (9, True), 2: (15, False)}'
done
nothing_left

# interrupted NAME TIMES SECONDS: a launch that gets so many SIGINT, with a worker
# (rank 1) that minds none.
interrupted()
{
    : >started
    # shellcheck disable=SC2016 # for the worker
    node "$1" --nproc_per_node=2 --shutdown_timeout="$3" --report="report-$1" \
        sh -c '[ "$RANK" = 0 ] || trap "" INT TERM
            echo "round=1 " >>"$E2E_DIR/started"
            exec sleep 300'
    wait_round 1 2
    kill -INT "$(pid_of "$1")"
    wait_for 'a second signal kills them' "$1.err"
    [ "$2" -eq 1 ] || kill -INT "$(pid_of "$1")"
    ends_with 130 "$1"
    nothing_left
}

interrupted once 1 1
has 'killing workers that did not stop: 1 worker, after 1 s (--shutdown_timeout)' \
    once.err
reported once 'len(ends) == 2 and not ends[0][1] and ends[1] == (9, True)'

interrupted twice 2 60
has 'killing workers that did not stop: a second signal came' twice.err
reported twice 'len(ends) == 2 and not ends[0][1] and ends[1] == (9, False)'
