#!/bin/sh
# The GPU fails behind the last step, while the test set is scored: is that an
# error, or a wrong score with status 0? On emulated kernels.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

trainer=$E2E_BIN/ddptrain-emulated
[ -x "$trainer" ] ||
    skip 'ddptrain-emulated is not built (no nccl.h or no C++ compiler)'

# score [NAME=value]...: one epoch, then the test set.
score()
{
    env "$@" "$trainer" 1 0 --model=regression --train_samples=1280 \
        --device=cuda \
        >out 2>err
}

score EMULATE_COUNT=1 || fail "it ends with $? without a failure"
grep -q '^test loss' out || fail 'nothing was scored'
kernels=$(sed -n 's/^emulate: \([0-9]*\) kernels$/\1/p' err)
[ "${kernels:-0}" -gt 10 ] || fail "there were ${kernels:-no} kernels"

# The last kernel is one of the evaluation.
score EMULATE_FAIL="$kernels" && fail 'it ended with 0'
status=$?
[ "$status" -eq 74 ] || fail "it ended with $status, not with 74"
! grep -q '^test loss' out || fail 'it told a score all the same'
grep -q 'an error' err || fail 'the error is not told'
