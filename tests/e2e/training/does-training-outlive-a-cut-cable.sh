#!/bin/sh
# Two machines train with --nnodes=1:2 and the cable of one is cut: does the
# other one resume alone, and is nothing left on the lost one that could write?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

network host other
for machine in host other; do
    # shellcheck disable=SC2086 # words
    node_on $machine $machine --nnodes=1:2 --nproc_per_node=2 \
        --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 \
        --node_rank=$([ $machine = host ] && echo 0 || echo 1) \
        --rdzv_backend=c10d ./train 1000 1 $MODEL --save_steps=10 \
        --snapshot_path="$E2E_DIR/snap"
done
wait_round 1 4
said '^epoch 2/'
began=$(now_ms)
cut_off other
wait_round 2 2 30
measured "cable cut with heartbeat_timeout=1, training goes on after" \
    "$(took_to 2) ms"
for pid in $(workers_on other 1); do
    is_gone "$pid" || fail "worker $pid of the lost node lives"
done
same '0 ' "$(values restarts 2)" restarts
said '^resuming from epoch'
heal other
wait_round 3 4
same '4 ' "$(values world 3)" 'world size after the healing'
said '^resuming .*written in round 2'
kill -INT "$(pid_of host)"
all_end 130 host other
nothing_left
