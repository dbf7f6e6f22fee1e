#!/bin/sh
# The model with convolutions and batch norms is killed in the middle and goes
# on from memory, then stopped and goes on from the disk: are parameters and
# running statistics those of a run that nobody disturbed, to the bit?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

case $MODEL in
*mlp*) ;;
*) skip 'needs the images' ;;
esac
# cnn NAME SNAPSHOTS OPTION...
cnn()
{
    name=$1 snapshots=$2
    shift 2
    node "$name" --standalone --nproc_per_node=2 --max_restarts=3 "$@" \
        ./train 3 1 --model=cnn --train_samples=1024 --batch_size=32 \
        --data="$E2E_DATA" --snapshot_path="$snapshots"
}

cnn a whole
ends_with 0 a 60
wanted=$(fingerprint)
[ -n "$wanted" ] || fail 'no fingerprint'
: >started
cnn a torn
said '^epoch 1/3'
kill -KILL "$(worker_of 1 1)"
said '^resuming .*memory'
said '^epoch 2/3'
kill -INT "$(pid_of a)"
end_of a
cnn a torn
said "^resuming from .*(torn"
ends_with 0 a 60
same "$wanted" "$(fingerprint)" fingerprint
grep -aq 'bn2.running_var' torn/*/*.safetensors || fail 'no statistics are saved'
nothing_left
