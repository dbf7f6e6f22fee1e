#!/bin/sh
# Packets are lost one way only, first from a node and then to it: are its
# workers dead before the others go on without it, and is it back when the
# partition heals?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
network host other
nodes_on "host other" --nnodes=1:2 --rdzv_endpoint=host:29500 \
    --rdzv_conf=heartbeat_timeout=1 --scale_interval=0 "$WORKER" gate
wait_round 1 2
round=1

# The newest round has a worker on each node, and is later than the one of host alone.
# Beside others the node may come once more while that round is made.
is_back()
{
    newest=$(sed -n 's/^round=\([0-9]*\) .*/\1/p' started | sort -n | tail -n 1)
    [ "$newest" -gt $((round + 1)) ] && has_lines 2 "^round=$newest " started
}

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
    eventually 30 is_back || fail "both nodes are not in one round after '$way'"
    round=$newest
    same '0 ' "$(values restarts $round)" restarts
done
open_gate
all_end 0 host other
nothing_left
