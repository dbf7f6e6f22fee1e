#!/bin/sh
# The disk is full when a snapshot is saved: is that said with the path and the
# reason, is the snapshot that was there whole, and does training not end well
# as if nothing had been?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

case $MODEL in
*mlp*) ;;
*) skip 'needs the images: the snapshots of the other model are tiny' ;;
esac
small_disk small 1900k
node it --standalone --nproc_per_node=2 ./train 2 1 $MODEL \
    --snapshot_path=small/snap
ends_with 74 it 30
grep -i 'no space' it.err it.out >words || fail 'a full disk is not mentioned'
has 'small/snap' words
measured "$(head -n 1 words | cut -c 1-100)"
# What is there can be read by a run that has room.
cp -r small/snap . || fail 'no snapshot at all'
launch 0 --standalone --nproc_per_node=2 ./train 2 1 $MODEL --snapshot_path=snap
has '^resuming from epoch 1' it.out
nothing_left
