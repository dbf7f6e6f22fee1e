#!/bin/sh
# A firewall resets the connections of one node to the rendezvous, which lives:
# are its workers dead before the others go on without it, with a token as well?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
network host other
make_token token
careful_worker
for way in open token; do
    token=''
    [ $way = open ] || token=token
    : >started
    for machine in host other; do
        # shellcheck disable=SC2086 # an option or none
        node_on $machine $machine --nnodes=1:2 --nproc_per_node=2 \
            --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 \
            ${token:+--rdzv_token_file=token} ./careful
    done
    wait_world 4
    first=$ROUND
    began=$(now_ms)
    fault_rule other output \
        'oif != lo meta l4proto tcp counter reject with tcp reset'
    eventually 30 has_lines 1 'the workers are killed' other.err ||
        fail 'the node that is rejected does not fence itself'
    fenced=$(took)
    is_forged other || fail 'nothing was rejected'
    wait_world 2 "$first"
    second=$ROUND
    took=$(took_to "$second")
    measured "rejected with heartbeat_timeout=1, $way: fenced after" \
        "$fenced ms, the other runs again after $took ms"
    none_overlap # the times are those at which it was seen
    for pid in $(workers_on other "$first"); do
        is_gone "$pid" || fail "worker $pid of the rejected node lives"
    done
    # It stays so for as long as the firewall does.
    sleep 2
    same "$second" "$(newest_round)" 'newest round'
    mend other
    wait_world 4 "$second"
    none_overlap
    open_gate
    all_end 0 host other
    close_gate
    nothing_left
done
