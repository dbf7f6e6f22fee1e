#!/bin/sh
# A daemon with a token: does plain HTTP show that it lives and nothing else,
# /metrics where that was asked for, and is a run undisturbed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
umask 077
make_token token
# ask NAME TARGET: what it says, in NAME.got.
ask()
{
    python3 "$E2E_LIB/get.py" "$port" "$2" >"$1.got" 2>&1
}
for open in '' --open_metrics; do
    port=$(free_port)
    : >started
    close_gate
    # shellcheck disable=SC2086 # no word, or one
    background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token $open
    wait_for 'serving on port' d.err
    nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_id=secretjob --rdzv_token_file=token "$WORKER" gate
    wait_round 1 2
    ask health /healthz || fail 'it does not say that it lives'
    has '^ok$' health.got
    for path in /status '/status?run=secretjob' / /nothing /events; do
        ask refused "$path" && fail "$path is shown"
        has '^403$' refused.got
        has token refused.got
        has 'by ddpctl page' refused.got
        has_not secretjob refused.got
    done
    if [ -n "$open" ]; then
        ask metrics /metrics || fail 'no /metrics'
        has '^ddprun_run_nodes{run="secretjob"} 2$' metrics.got
    else
        ask metrics /metrics && fail '/metrics is shown'
        has '^403$' metrics.got
        has_not secretjob metrics.got
    fi
    open_gate
    all_end 0 a b
    lines 2 '^round=' started
    kill -TERM "$(pid_of d)"
    ends_with 0 d
done
