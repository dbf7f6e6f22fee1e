#!/bin/sh
# A line on which each packet takes 40 to 120 ms and many overtake others: do
# nodes meet, is nobody taken for lost with heartbeat_timeout=2, is a failure
# dealt with in a few round trips, and is training the same to the bit?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

network host other
train()
{
    for machine in host other; do
        # shellcheck disable=SC2086 # words
        node_on $machine $machine --nnodes=2 --nproc_per_node=1 \
            --max_restarts=1 --rdzv_id="$1" --rdzv_endpoint=host:29500 \
            --rdzv_conf=heartbeat_timeout=2 ./train 3 0 --model=linear \
            --batch_size=64 --snapshot_path="$E2E_DIR/snap.$1"
    done
}
train near
all_end 0 host other
wanted=$(fingerprint)
rm ./*.out
: >started

far other 40 80
train far
wait_world 2 0 30
sleep 5
same 1 "$(newest_round)" 'newest round after three leases'
began=$(now_ms)
kill_worker 1 1
wait_world 2 1 30
measured "40 to 120 ms each way: no false alarm in 5 s, a worker killed:" \
    "both run again after $(took_to 2) ms"
in_time 1500 "$(took_to 2)" 'the next round, in a few round trips'
ends_with 0 host 40
ends_with 0 other 40
same "$wanted" "$(fingerprint)" fingerprint
nothing_left host
nothing_left other
