#!/bin/sh
# Each rank has a part of the optimizer's state. A worker is killed, and the world
# grows and shrinks from launch to launch: are the parameters those that training
# without --shard comes to, to the bit?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

case $MODEL in
*linear*) MODEL='--model=regression' ;; # an optimizer that has a state
esac

# launch RANKS EPOCHS FOLDER [--shard]: on what the folder has, to the end.
launch()
{
    rm -f ./*.out ./*.err
    # shellcheck disable=SC2086 # words
    node it --standalone --nproc_per_node="$1" --max_restarts=1 \
        ./train "$2" 100 $MODEL --snapshot_path="$3" ${4:-}
}

# go_on RANKS EPOCHS [--shard]: from where both folders are, one more epoch in each,
# without --shard and as is said here.
go_on()
{
    for folder in whole shards; do
        [ $folder = whole ] && form= || form=${3:-}
        launch "$1" "$2" $folder "$form"
        ends_with 0 it 30
        has "^resuming from epoch $(($2 - 1)), .*($folder, " it.out
        [ $folder = shards ] || wanted=$(fingerprint)
    done
    same "$wanted" "$(fingerprint)" "fingerprint on $1 ranks"
}

# The parts of two ranks meet in the midst of a row, and those of three too.
launch 2 6 whole
ends_with 0 it 30
wanted=$(fingerprint)
[ -n "$wanted" ] || fail 'no fingerprint'
: >started
launch 2 6 shards --shard
said '^epoch 1/'
kill -KILL "$(worker_of 1 1)"
wait_round 2 2
ends_with 0 it 30
has '^resuming .*(memory, written in round 1)' it.out
same "$wanted" "$(fingerprint)" 'fingerprint with --shard'
grep -qa '"ddp.whole.exp_avg_sq.fc1.weight"' shards/*/* ||
    fail 'nothing is sharded'
! grep -qa '"ddp.whole.' whole/*/* || fail 'there are pieces without --shard'

go_on 3 7 --shard
go_on 1 8
nothing_left
