#!/bin/sh
# A whole node is killed while two train with --nnodes=1:2: does the other one
# resume with the smaller world, and a node that comes later make it larger?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

port=$(free_port)
train_on "$port" 1:2 0 snap a
wait_listener "$port"
train_on "$port" 1:2 0 snap b
eventually 30 has_lines 4 'world=4' started || fail 'no world of 4'
round=$(sed -n 's/^round=\([0-9]*\) .*world=4.*/\1/p' started | tail -n 1)
said '^epoch 2/8'
began=$(now_ms)
kill -KILL "$(pid_of b)" "$(agent_of b)"
wait_round $((round + 1)) 2
measured "node killed while it trains, the other one's workers run again:" \
    "$(took_to $((round + 1))) ms"
same '2 ' "$(values world $((round + 1)))" 'world size'
same '0 ' "$(values restarts $((round + 1)))" restarts
said '^resum.*epoch'
ends_with 0 a 30
has 'parameters identical on all 2 ranks' a.out
end_of b
nothing_left
