#!/bin/sh
# Workers are killed, again and again, and nothing has reached the disk: do all
# go on from the step before the one at which that was, out of the memory that
# the launcher holds, and is the end the same to the bit?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# launch_two PORT RESTARTS: two nodes, no save before the last epoch's. There are
# five more epochs when the last worker is killed (lib/trainer.sh).
launch_two()
{
    for name in a b; do
        # shellcheck disable=SC2086 # words
        node $name --nnodes=2 --nproc_per_node=2 --max_restarts="$2" \
            --rdzv_endpoint="127.0.0.1:$1" --rdzv_conf=last_call_timeout=0 \
            ./train 9 100 $MODEL --snapshot_path="$E2E_DIR/of-$2-$name"
    done
}

# last_step: the highest at which somebody says that a peer died.
last_step()
{
    sed -n 's/^ddptrain: rank [0-9]*: step \([0-9]*\): .*/\1/p' ./*.err |
        sort -n | tail -n 1
}

launch_two "$(free_port)" 0
ends_with 0 a 30
ends_with 0 b
wanted=$(fingerprint)
rm -f ./*.out ./*.err
: >started
launch_two "$(free_port)" 3
round=1
for rank in 3 0 1; do
    said "^epoch $((round + 1))/"
    kill -KILL "$(worker_of $rank $round)"
    round=$((round + 1))
    wait_round $round 4
    said "^resuming.*in round $((round - 1)))"
    from=$(cat ./*.out |
        sed -n 's/^resuming .*step \([0-9]*\) (.*memory, .*/\1/p' |
        sort -n | tail -n 1)
    last=$(last_step)
    [ "${from:-0}" -ge $((last - 1)) ] ||
        fail "rank $rank killed after step $last, resumed from ${from:-nothing}"
    measured "rank $rank killed after step $last, resumed from step $from"
done
ends_with 0 a 30
ends_with 0 b
same "$wanted" "$(fingerprint)" fingerprint
nothing_left
# Without memory there is nothing to go on from but the disk.
rm -f ./*.out
node a --standalone --nproc_per_node=2 --max_restarts=1 --snapshot_memory=0 \
    ./train 6 100 $MODEL --snapshot_path=none
: >started
said '^epoch 1/'
kill -KILL "$(worker_of 1 1)"
ends_with 0 a 30
lines 2 '^epoch 1/' a.out
