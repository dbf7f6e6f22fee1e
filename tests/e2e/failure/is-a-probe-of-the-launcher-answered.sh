#!/bin/sh
# TORCHELASTIC_HEALTH_CHECK_PORT, probed as Kubernetes does: is it answered while the
# workers run, and not by an agent that stands still? A second launcher on the node
# does not get the port, and trains all the same.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v python3 >/dev/null || skip 'needs python3'

probe()
{
    timeout 5 python3 "$E2E_LIB/get.py" "$port" /healthz >probe.out 2>&1
}

port=$(free_port)
export TORCHELASTIC_HEALTH_CHECK_PORT="$port"
background it "$DDPRUN" --nproc_per_node=2 "$WORKER" gate
wait_round 1 2 30
eventually 30 probe || fail "no answer: $(cat probe.out)"
same '200 alive ' "$(tr '\n' ' ' <probe.out)" 'the answer'

"$DDPRUN" true 2>second.err || fail 'a second launcher fails'
has 'cannot serve TORCHELASTIC_HEALTH_CHECK_PORT' second.err

agent=$(agent_of it)
kill -STOP "$agent"
! probe || fail 'an agent that stands still answers'
kill -CONT "$agent"
eventually 30 probe || fail 'it does not answer any more'
open_gate
ends_with 0 it
nothing_left it
! probe || fail 'the port is open still'
