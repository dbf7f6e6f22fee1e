#!/bin/sh
# Four nodes of which two are enough. The one that serves the rendezvous loses
# its power, then the one that serves in its place: do the other two go on each
# time, with no charge? And with a token, is that needed there as well? What dies
# at once has no time for the farewell that a token needs, so that its lease is
# waited for.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

# lose_two WHAT [OPTION...]: the four, of which a and b die.
lose_two()
{
    what=$1
    shift
    : >started
    careful_worker
    close_gate
    nodes_on "a b c d" --nnodes=2:4 --max_restarts=1 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2 "$@" ./careful
    wait_world 4
    left=4
    for victim in a b; do
        before=$ROUND left=$((left - 1))
        kill_node $victim
        began=$(now_ms)
        wait_world "$left" "$before"
        took=$(began_after "$ROUND")
        measured "$victim, which serves, lost, $what: the others run again" \
            "after $took ms"
        in_time 3000 "$took" 'the next round (heartbeat_timeout + 1 s)'
        same '0 ' "$(values restarts "$ROUND")" restarts
    done
    none_overlap
}

# both_end: those that are left, and nothing of the others.
both_end()
{
    open_gate
    for name in c d; do ends_with 0 $name; done
    for name in a b; do end_of $name; done
    nothing_left
}

network a b c d
lose_two 'without a token'
both_end

make_token token
lose_two 'with a token' --rdzv_token_file=token
# In plain text the server answers that a token is needed, and nothing else.
at=$(sed -n 's/.*it is served at \([0-9.]*:[0-9]*\) .*/\1/p' d.err |
    tail -n 1)
[ -n "$at" ] || fail 'd has not told where the run is served'
(in_machine d "$DDPCTL" --endpoint="$at" top --once) >ctl.out 2>&1 &&
    fail "ddpctl without a token was answered: $(cat ctl.out)"
has 'token' ctl.out
has_not 'round' ctl.out
(in_machine d "$DDPCTL" --endpoint="$at" --token_file="$E2E_DIR/token" top --once) \
    >ctl.out 2>&1 || fail "ddpctl with the token was not: $(cat ctl.out)"
both_end
