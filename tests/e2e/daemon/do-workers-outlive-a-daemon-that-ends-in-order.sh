#!/bin/sh
# A daemon gets SIGTERM, and does not come back: is no worker stopped, and do the
# nodes go on with each other, also without one that is frozen then?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
port=$(free_port)
daemon one "$port"
nodes "a b c" --nnodes=1:3 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1,is_host=0 ./careful
wait_world 3
first=$ROUND
began=$(now_ms)
kill -TERM "$(pid_of one)"
ends_with 0 one
measured "the daemon ended in $(took) ms"
for name in a b c; do
    wait_for 'connected to the rendezvous again' $name.err
done
sleep 2 # two leases
same "$first" "$(newest_round)" 'newest round'
for name in a b c; do
    has_not 'workers are killed' $name.err
done
kill -STOP "$(agent_of c)"
wait_world 2 "$first" 30
none_overlap
kill -CONT "$(agent_of c)"
wait_world 3 "$ROUND" 30
none_overlap
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
all_end 0 a b c
nothing_left
