#!/bin/sh
# The machine of group rank 0 gets another address while its workers run. Is
# nobody restarted for that, and does the next round have the new one?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network hub first second
daemon_on hub hub 29400
rank=0
for machine in first second; do
    node_on $machine $machine --nnodes=2 --node_rank=$rank --max_restarts=1 \
        --rdzv_backend=c10d --rdzv_endpoint=hub:29400 \
        --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
    rank=1
done
wait_round 1 2
case $(values master 1) in
10.77.0.2:*\ ) ;;
*) fail "the master is $(values master 1)" ;;
esac
sleep 2 # until both have said that they hold the round: leases are long
ip -n "dpe$$-first" address del 10.77.0.2/24 dev eth0
ip -n "dpe$$-first" address add 10.77.0.77/24 dev eth0
wait_for 'connected to the rendezvous again' first.err
lines 2 '^round=' started
kill -KILL "$(worker_of 1 1)"
wait_round 2 2
case $(values master 2) in
10.77.0.77:*\ ) ;;
*) fail "the master is $(values master 2)" ;;
esac
open_gate
all_end 0 first second
