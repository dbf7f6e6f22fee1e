#!/bin/sh
# Packets are lost one way only, first from a node and then to it: are its
# workers dead before the others go on without it, and is it back when the
# partition heals?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
network host other
for machine in host other; do
    node_on $machine $machine --nnodes=1:2 --rdzv_endpoint=host:29500 \
        --rdzv_conf=heartbeat_timeout=1 --scale_interval=0 "$WORKER" gate
done
wait_round 1 2
round=1
for way in mute deafen; do
    worker=$(workers_on other $round)
    began=$(now_ms)
    $way other
    wait_lines 1 "^round=$((round + 1)) .* node=host " started
    first=$(round_at $((round + 1)))
    is_gone "$worker" || fail "a worker of round $round lives in the next one"
    measured "$way: the others run again after $((first - began)) ms"
    in_time 2500 $((first - began)) 'the round of the others'
    lines 0 "^round=$((round + 1)) .* node=other " started
    mend other
    round=$((round + 2))
    wait_round $round 2 30
    same '0 ' "$(values restarts $round)" restarts
done
open_gate
ends_with 0 host
ends_with 0 other
nothing_left
