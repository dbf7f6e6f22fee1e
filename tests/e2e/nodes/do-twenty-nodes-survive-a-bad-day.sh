#!/bin/sh
# Twenty nodes in twenty network namespaces: workers, agents, whole nodes and
# the daemon die, five cables are cut at once, and all come back: does each
# world have whom it should, with the charges that it should, and does it end?
# limit: 120
# long: half a minute of both cores
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
names=$(seq -f 'n%g' 1 20)
# shellcheck disable=SC2086 # words
network server $names
daemon_on server d 29500
come()
{
    node_on "$1" "$1" --nnodes=10:20 --max_restarts=3 --scale_interval=1 \
        --rdzv_endpoint=server:29500 \
        --rdzv_conf=heartbeat_timeout=3,last_call_timeout=40 ./careful
}

began=$(now_ms)
for name in $names; do come "$name"; done
wait_world 20 0 40
measured "20 nodes in 20 namespaces run $(took) ms after the first was started"
same 1 "$ROUND" 'first round'
same "$(seq 0 19)" \
    "$(sed -n 's/^round=1 rank=\([0-9]*\) .*/\1/p' started | sort -n)" ranks

began=$(now_ms)
kill_worker 7 1
wait_world 20 1 30
measured "a worker killed: all 20 run again after $(took_to "$ROUND") ms"
same '1 ' "$(values restarts "$ROUND")" restarts

# The daemon dies: nobody minds.
before=$ROUND
kill_guard d
end_of d
daemon_on server d 29500
for name in $names; do
    wait_for 'connected to the rendezvous again' "$name.err" 30
done
same "$before" "$(newest_round)" 'newest round after the daemon had died'

# Two are killed, agent and node, and two guards at the same moment.
began=$(now_ms)
kill_agent n3
kill_node n4
kill_guard n5
wait_world 17 "$before" 30
without=$(took) seventeen=$ROUND
for name in n3 n4 n5; do end_of $name && come $name; done
wait_world 20 "$ROUND" 40
same '1 ' "$(values restarts "$ROUND")" restarts
measured "three nodes killed: 17 run after $without ms; started anew: all 20" \
    "after $(took) ms, $((ROUND - seventeen)) rounds later"

before=$ROUND
began=$(now_ms)
for name in n16 n17 n18 n19 n20; do cut_off $name; done
wait_world 15 "$before" 30
measured "five cables cut, heartbeat_timeout=3: 15 run after $(took) ms"
for name in n16 n17 n18 n19 n20; do heal $name; done
wait_world 20 "$ROUND" 40
same '1 ' "$(values restarts "$ROUND")" restarts
open_gate
for name in $names; do ends_with 0 "$name" 30; done
none_overlap
for name in $names; do nothing_left "$name"; done
