#!/bin/sh
# --nnodes=1:2, and the second node comes when the first one runs alone: does a
# round of both begin, without a charge?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
for name in a b; do
    began=$(now_ms)
    node $name --nnodes=1:2 --nproc_per_node=2 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=last_call_timeout=0 "$WORKER" report
    wait_round 1 2
done
wait_round 2 4
measured "a second node is started, both run as one world: $(took_to 2) ms"
same '2 ' "$(values world 1)" 'world size alone'
same '4 ' "$(values world 2)" 'world size together'
same '0 ' "$(values restarts 2)" restarts
same '01' "$(ranks_on a 2)" 'ranks of the first'
lines 2 '^term ' terms # they were asked, not killed
# A third one finds no room: it waits, disturbs nobody, and ends with the run.
node c --nnodes=1:2 --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=last_call_timeout=0 "$WORKER" report
wait_for 'waits as a spare' c.err
lines 6 '^round=' started
# And takes the place of one that is lost.
began=$(now_ms)
kill -KILL "$(pid_of b)"
wait_round 3 4
measured "a node killed, its spare runs: $(took_to 3) ms"
same '23' "$(ranks_on c 3)" 'ranks of the spare'
kill -INT "$(pid_of a)"
all_end 130 a c
nothing_left
