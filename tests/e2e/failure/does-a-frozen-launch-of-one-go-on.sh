#!/bin/sh
# A node that serves its own rendezvous is frozen for longer than its lease: its
# workers are killed, since that is the rule. Do they run again as soon as it is
# thawed, though its server knew of no node any more?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node a --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=0.5,reconnect_timeout=0.5 "$WORKER" gate
wait_round 1 1
kill -STOP "$(agent_of a)"
eventually 30 grep -q 'is frozen and its lease is over' a.err ||
    fail "the guard did not see that the agent is frozen"
sleep 0.5
kill -CONT "$(agent_of a)"
began=$(now_ms)
wait_round 2 1
again_ms=$(took)
measured "thawed, until the workers run again: $again_ms ms"
in_time 3000 "$again_ms" 'the next round, which waits for nobody'
open_gate
ends_with 0 a
nothing_left
