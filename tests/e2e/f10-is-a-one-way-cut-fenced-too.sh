#!/bin/sh
# Packets are lost one way only, first from a node and then to it: are its
# workers dead before the others go on without it, and is it back when the
# partition heals?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v nft >/dev/null || skip 'needs nft'
network host other
nft_on()
{
    _machine=$1
    shift
    ip netns exec "dpe$$-$_machine" nft "$@" || fail "nft $*"
}

for machine in host other; do
    node_on $machine $machine --nnodes=1:2 --rdzv_endpoint=host:29500 \
        --rdzv_conf=heartbeat_timeout=1 --scale_interval=0 "$WORKER" gate
done
wait_round 1 2
round=1
for way in output input; do
    worker=$(workers_on other $round)
    nft_on other "add table inet cut"
    nft_on other "add chain inet cut c { type filter hook $way priority 0; }"
    began=$(now_ms)
    nft_on other "add rule inet cut c drop"
    wait_lines 1 "^round=$((round + 1)) .* node=host " started
    first=$(round_at $((round + 1)))
    is_gone "$worker" || fail "a worker of round $round lives in the next one"
    measured "no $way: the others run again after $((first - began)) ms"
    [ $((first - began)) -lt 2500 ] || fail "that took $((first - began)) ms"
    lines 0 "^round=$((round + 1)) .* node=other " started
    nft_on other "delete table inet cut"
    round=$((round + 2))
    wait_round $round 2 20
    same '0 ' "$(values restarts $round)" restarts
done
open_gate
ends_with 0 host
ends_with 0 other
nothing_left
