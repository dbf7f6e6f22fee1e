#!/bin/sh
# Workers whose model lies in a GPU's memory, emulated as NCCL and the driver
# are (tests/gpu/emulate.h): does one that is killed cost a step, and is the end
# the same to the bit, with gradients added up by NCCL and over TCP?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

[ -x "$E2E_BIN/ddptrain-emulated" ] ||
    skip 'ddptrain-emulated is not built (no nccl.h or no C++ compiler)'
sed -i "s:/ddptrain\":/ddptrain-emulated\":" train

# launch COMM RESTARTS
launch()
{
    node a --standalone --nproc_per_node=2 --max_restarts="$2" ./train 16 100 \
        --model=regression --train_samples=1280 --device=cuda --comm="$1" \
        --snapshot_path="$E2E_DIR/of-$1-$2"
}

for comm in nccl tcp; do
    rm -f ./*.out ./*.err
    : >started
    launch $comm 0
    ends_with 0 a 30
    wanted=$(fingerprint)
    [ $comm = tcp ] || grep -q '^on emulated, gradients added up by NCCL' a.out ||
        fail 'NCCL was not used'
    rm -f ./*.out ./*.err
    : >started
    launch $comm 1
    said '^epoch 3/'
    # Else rank 0 may be told to end before it has seen that.
    kill -STOP "$(agent_of a)"
    kill -KILL "$(worker_of 1 1)"
    wait_for '^ddptrain: rank 0: step [0-9]*: .*: rank 1 died' a.err
    kill -CONT "$(agent_of a)"
    ends_with 0 a 30
    grep -q '^resuming.*memory, written in round 1' a.out ||
        fail 'it does not go on from memory'
    same "$wanted" "$(fingerprint)" "fingerprint with $comm"
done
nothing_left
