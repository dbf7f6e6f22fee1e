#!/bin/sh
# Where no GPU can be used, does --device=auto train on the CPU as --device=cpu
# does, and does --device=cuda end every node at once with a sentence that says
# why?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# Whatever this machine has: no GPU is to be seen.
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES

node a --standalone --nproc_per_node=2 ./train 2 0 $MODEL --device=cpu
ends_with 0 a 30
wanted=$(fingerprint)
rm -f ./*.out
node a --standalone --nproc_per_node=2 ./train 2 0 $MODEL
ends_with 0 a 30
same "$wanted" "$(fingerprint)" fingerprint
rm -f ./*.out ./*.err
node a --standalone --nproc_per_node=2 ./train 2 0 $MODEL --device=cuda
ends_with 78 a 30
grep -q '^ddptrain: rank [01]: --device=cuda: .*\(GPU\|CUDA\)' a.err ||
    fail 'it is not said why there is no GPU'
# One rank alone that wants another kind of sums is refused for what it asks.
node a --standalone --nproc_per_node=1 ./train 2 0 $MODEL --device=cpu \
    --comm=nccl
ends_with 2 a 30
grep -q 'comm=nccl cannot be used with --device=cpu' a.err ||
    fail 'nccl on the CPU is not refused'
nothing_left
