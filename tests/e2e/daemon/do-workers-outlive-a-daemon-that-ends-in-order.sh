#!/bin/sh
# A daemon gets SIGTERM, and the next one comes much later than a lease lasts: is
# no worker of a job that could shrink stopped, does a failure afterwards cost one
# restart, and does the next daemon wait for a node that is missing as long as its
# last lease may last?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
port=$(free_port)
daemon one "$port"
for name in a b c; do
    node $name --nnodes=1:3 --max_restarts=1 --scale_interval=0 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=10,is_host=0 ./careful
done
wait_world 3
first=$ROUND
sleep 2 # all have confirmed the round
began=$(now_ms)
kill -TERM "$(pid_of one)"
ends_with 0 one
measured "the daemon gave the last leases and ended in $(took) ms"
given=$began
sleep 3
for name in a b c; do
    has_not 'workers are killed' $name.err
done
kill -STOP "$(agent_of c)"
daemon two "$port"
for name in a b; do
    wait_for 'connected to the rendezvous again' $name.err
done
began=$(now_ms)
wait_world 2 "$first" 30
measured "an agent is frozen: the others go on without it after $(took) ms"
# c might run until 8 s after the end of the first daemon.
began=$given
[ "$(took)" -gt 7500 ] || fail "its last lease was not waited for: $(took) ms"
none_overlap
kill -CONT "$(agent_of c)"
ends_with 72 c # it was away for longer than reconnect_timeout
none_overlap
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
for name in a b; do
    ends_with 0 $name
done
kill -TERM "$(pid_of two)"
ends_with 0 two
