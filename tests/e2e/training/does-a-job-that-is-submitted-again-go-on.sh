#!/bin/sh
# A scheduler takes a job's nodes away, in order (SIGTERM to all) and then with
# their power, and submits the same lines again each time: does it go on over
# its snapshots, from round 1 on and with nothing charged, and is the end the
# same to the bit as that of a job that had its time?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

# submit SNAPSHOT: the job, of two nodes that have a folder in common.
submit()
{
    rm -f ./*.out
    : >started
    train_on "$(free_port)" 2 0 "$E2E_DIR/$1" a b
}

# resumed_at: the step from which it said that it goes on.
resumed_at()
{
    cat ./*.out | sed -n 's/^resuming .*step \([0-9]*\).*/\1/p'
}

epochs=9
submit undisturbed
ends_with 0 a 30
ends_with 0 b
wanted=$(fingerprint)

submit job
said '^epoch 2/'
kill -TERM "$(pid_of a)" "$(pid_of b)"
all_end 143 a b
nothing_left

submit job
said '^resuming'
first=$(resumed_at)
[ "$first" -gt 0 ] || fail "from step $first"
said '^epoch 4/'
kill_node a
kill_node b
end_of a
end_of b
nothing_left

submit job
said '^resuming'
second=$(resumed_at)
[ "$second" -gt "$first" ] || fail "from step $second, and before from $first"
ends_with 0 a 30
ends_with 0 b
same "$wanted" "$(fingerprint)" fingerprint
same '0 ' "$(values restarts 1)" 'restarts of the third submission'
measured "submitted again: went on from step $first, then from step $second"
nothing_left
