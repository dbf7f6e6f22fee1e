#!/bin/sh
# A guard is frozen (SIGSTOP) for longer than a lease: does the job run on, and
# if its agent dies as well, are its workers dead before the others go on?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
for name in a b; do
    node $name --nnodes=1:2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" --rdzv_conf=heartbeat_timeout=1 \
        "$WORKER" gate
    wait_listener "$port"
done
wait_round 1 2
kill -STOP "$(pid_of b)"
sleep 1.5
lines 2 '^round=' started
has_not 'are killed' b.err
kill -SEGV "$(workers_on b 1)"
wait_round 2 2 # its agent does not need it for that
same '1 ' "$(values restarts 2)" restarts
worker=$(workers_on b 2)
began=$(now_ms)
kill -KILL "$(agent_of b)"
wait_lines 1 '^round=[3-9] .* node=a ' started
took=$(($(round_at 3) - began))
is_gone "$worker" || fail 'a worker of round 2 lives in round 3'
# Nobody says the farewell: the lease has to be waited for.
measured "agent killed under a frozen guard: the other runs again after" \
    "$took ms"
in_time 2000 "$took" 'the next round'
same '1 ' "$(values world 3)" 'world size'
kill -CONT "$(pid_of b)"
ends_with 137 b
sleep 0.3
lines 1 '^round=3' started
open_gate
ends_with 0 a
nothing_left
