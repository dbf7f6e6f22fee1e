#!/bin/sh
# Two nodes, one of which serves the job. On the other one, does ddpctl without an
# endpoint find where it is served, though a server of that node's own answers there
# and has nothing; for status, top and an order? And if its own port is ddpctl's
# default one? Is a job of another network none of them?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# ask STATUS MACHINE WORD...: ddpctl there; what it says is in ctl.out.
ask()
{
    _want=$1 STATUS=0
    _on=$2
    shift 2
    (in_machine "$_on" "$DDPCTL" "$@") >ctl.out 2>&1 9<&- </dev/null || STATUS=$?
    [ "$STATUS" -eq "$_want" ] || cat ctl.out
    same "$_want" "$STATUS" "the status of ddpctl $* on $_on"
}

network a b c
for port in 29500 29400; do
    : >started
    nodes_on "a b" --rdzv_id=job --nnodes=2 \
        --rdzv_endpoint=a:$port,b:$port "$WORKER" gate
    eventually 30 has_lines 2 '^round=1 ' started || fail 'no round'
    # It looks for a server there, so that one is started.
    (in_machine b "$DDPCTL" --endpoint="localhost:$port" top --once) >idle.out 2>&1 9<&-
    has 'nothing runs here' idle.out
    for name in a b; do
        ask 0 $name top --once
        lines 1 '^  job ' ctl.out
        has '^  job  *active  *1  2 of 2' ctl.out
    done
    ask 69 c top
    has 'no job of yours is on this host' ctl.out
    ask 0 b end job
    all_end 84 a b
done
