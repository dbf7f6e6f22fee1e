#!/bin/sh
# A GPU whose n-th kernel cannot be launched, for every n of a step: does what
# is resumed from the snapshots end with the same bits? On emulated kernels.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

trainer=$E2E_BIN/ddptrain-emulated
[ -x "$trainer" ] ||
    skip 'ddptrain-emulated is not built (no nccl.h or no C++ compiler)'

# train FOLDER [NAME=value]...: four steps, a snapshot at each.
train()
{
    folder=$1
    shift
    env "$@" "$trainer" 1 1 --model=regression --train_samples=2048 \
        --device=cuda --batch_size=512 --save_steps=1 \
        --snapshot_path="$folder" >out 2>err
}

fingerprint()
{
    sed -n 's/^fingerprint \([0-9a-f]*\) .*/\1/p' out
}

train whole EMULATE_COUNT=1 || fail "it ends with $? without a failure"
wanted=$(fingerprint)
[ -n "$wanted" ] || fail 'there is no fingerprint'
kernels=$(sed -n 's/^emulate: \([0-9]*\) kernels$/\1/p' err)
[ "${kernels:-0}" -gt 40 ] || fail "there were ${kernels:-no} kernels"

# Steps are alike: the kernels of the third stand for all.
for n in $(seq 30 43); do
    rm -rf broken
    train broken EMULATE_FAIL="$n" && fail "kernel $n fails, and the end is 0"
    train broken A=1 || fail "kernel $n: what is resumed ends with $?"
    same "$wanted" "$(fingerprint)" "fingerprint behind a failure of kernel $n"
done
measured "14 of $kernels kernels failed in turn"
