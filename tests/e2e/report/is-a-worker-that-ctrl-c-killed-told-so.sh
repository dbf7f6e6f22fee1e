#!/bin/sh
# A worker ignores Ctrl-C, and its launcher kills it when --shutdown_timeout is
# over. Does the JSON report say so, and not that the worker died by SIGKILL? And
# of one that a second Ctrl-C killed at once, is no such thing said?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'

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

# killed NAME WANTED: of rank 1, whose end the report has beside rank 0's.
killed()
{
    python3 - "report-$1" "$2" <<'PY' || fail "the report of $1 is not right"
import json, sys
ends = {c["rank"]: c for c in json.load(open(sys.argv[1]))["consequences"]}
assert sorted(ends) == [0, 1], ends
assert ends[1]["signal"] == 9, ends
assert ends[1]["killed_by_ddprun"] is (sys.argv[2] == "late"), ends
assert ends[0]["killed_by_ddprun"] is False, ends
PY
}

interrupted once 1 1
has 'killing workers that did not stop: 1 worker, after 1 s (--shutdown_timeout)' \
    once.err
killed once late

interrupted twice 2 60
has 'killing workers that did not stop: a second signal came' twice.err
killed twice at-once
