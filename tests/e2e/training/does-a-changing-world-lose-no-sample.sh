#!/bin/sh
# The world changes 4, 2, 3, 4 while a job trains, by nodes that die and come,
# and by launches over one folder of snapshots: does each sample of each epoch
# count once?
# limit: 120
# long: half a minute of one core
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

case $MODEL in
*mlp*) SAMPLES=6000 EPOCHS=16 MODEL="$MODEL --batch_size=16" ;;
*) SAMPLES=2048 EPOCHS=60 ;;
esac

# each_once FILE...: of the launches, in order.
each_once()
{
    python3 "$E2E_LIB/samples_once.py" $SAMPLES $EPOCHS "$@" >once ||
        fail "$(cat once)"
    has "each of $SAMPLES samples once in $EPOCHS epochs" once
    has 'of \[2, 3, 4\] ranks' once
    measured "$1: $(tail -n 1 once)"
}

# A line too few or too many is found.
# shellcheck disable=SC2086 # words
one_more_or_less()
{
    sed -i '$d' launch4.0
    ! python3 "$E2E_LIB/samples_once.py" $SAMPLES $EPOCHS $LAUNCHES >once ||
        fail 'a line that is missing is not missed'
    has "^epoch $EPOCHS: [0-9]* lost" once
    tail -n 1 launch4.1 >>launch4.0
    tail -n 2 launch4.2 | head -n 1 >>launch4.0
    ! python3 "$E2E_LIB/samples_once.py" $SAMPLES $EPOCHS $LAUNCHES >once ||
        fail 'a line that is there twice is not seen'
    has "^epoch $EPOCHS: [0-9]* twice" once
}

# member NAME...: nodes of one worker each.
member()
{
    for name in "$@"; do
        # shellcheck disable=SC2086 # words
        node "$name" --nnodes=1:4 --nproc_per_node=1 --scale_interval=0 \
            --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=last_call_timeout=1,heartbeat_timeout=1 \
            ./train $EPOCHS 1 $MODEL --save_steps=10 \
            --snapshot_path=live --samples_taken=nodes
    done
}

# trains_in_world WORKERS: a round of so many that has ended an epoch.
trains_in_world()
{
    wait_world "$1" "${ROUND:-0}"
    has_epochs=$(cat ./*.out | grep -c '^epoch')
    eventually 30 more_epochs || fail "a world of $1 ends no epoch"
}

more_epochs()
{
    [ "$(cat ./*.out | grep -c '^epoch')" -gt "$has_epochs" ]
}

port=$(free_port)
daemon server "$port"
member a b c d
trains_in_world 4
kill_node a
kill_node c
end_of a
end_of c
trains_in_world 2
member e
trains_in_world 3
member f
trains_in_world 4
for name in b d e f; do
    ends_with 0 "$name" 30
done
has_said 'parameters identical on all 4 ranks' || fail 'no world of 4 at the end'
each_once nodes

# launch_of WORKERS NUMBER: on the folder that the last one left.
launch_of()
{
    rm -f ./*.out
    # shellcheck disable=SC2086 # words
    node it --standalone --nproc_per_node="$1" ./train $EPOCHS 1 $MODEL \
        --save_steps=10 --snapshot_path=again \
        --samples_taken="launch$2"
}

launch_of 4 1
said '^epoch 2/'
kill -TERM "$(pid_of it)"
ends_with 143 it
launch_of 2 2
said '^epoch 4/'
kill_node it
end_of it
launch_of 3 3
said '^epoch 6/'
kill -TERM "$(pid_of it)"
ends_with 143 it
launch_of 4 4
ends_with 0 it 30
LAUNCHES='launch1 launch2 launch3 launch4'
# shellcheck disable=SC2086 # words
each_once $LAUNCHES
one_more_or_less

# That lines cannot be written is told once, and training goes on.
ln -s /dev/full full.0
"$E2E_BIN/ddptrain" 1 0 --model=linear --samples_taken=full >full.out \
    2>full.err || fail 'training ends with the lines of samples'
lines 1 '--samples_taken: cannot write full\.0: No space left on device' full.err
same 1 "$(wc -l <full.err)" 'lines of full.err'
has '^fingerprint' full.out

kill -TERM "$(pid_of server)"
end_of server
nothing_left
