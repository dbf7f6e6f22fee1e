#!/bin/sh
# All cables of a job are dead, for four seconds and for twelve, much longer than a
# lease: is it one round that this costs, with which all nodes go on, and are the
# workers of each node started once more and not again and again? (They were started
# 57 times on a healthy node, in 289 rounds: with a round that came before the lease
# that its workers need.)
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
names='a b c d'
# shellcheck disable=SC2086 # words
network $names
nodes_on "$names" --nnodes=1:4 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=2 ./careful
wait_world 4
for seconds in 4 12; do
    before=$ROUND
    lines=$(wc -l <started)
    for name in $names; do cut_off $name; done
    sleep $seconds
    same "$lines" "$(wc -l <started)" 'workers started while all cables were dead'
    began=$(now_ms)
    for name in $names; do heal $name; done
    wait_world 4 "$before" 30
    measured "all cables dead for $seconds s: all run again after $(took) ms"
    sleep 2 # and stay in it
    wait_world 4 "$before"
    same $((lines + 4)) "$(wc -l <started)" \
        "workers started in all, after $seconds s without cables"
done
none_overlap
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
for name in $names; do ends_with 0 $name; done
for name in $names; do nothing_left $name; done
