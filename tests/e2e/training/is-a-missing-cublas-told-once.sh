#!/bin/sh
# Without cuBLAS a GPU's matrix products take longer: is that told, and once,
# not by each rank or at each step? On emulated kernels, which have none.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

trainer=$E2E_BIN/ddptrain-emulated
[ -x "$trainer" ] ||
    skip 'ddptrain-emulated is not built (no nccl.h or no C++ compiler)'

node a --standalone --nproc_per_node=2 "$trainer" 1 0 --model=regression \
    --train_samples=1280 --device=cuda
ends_with 0 a 30
told=$(cat a.out a.err | grep -c 'libcublas was not found')
[ "$told" -eq 1 ] || fail "it was told $told times"

# On the CPU nobody asks for it.
rm -f a.out a.err
node a --standalone --nproc_per_node=1 "$trainer" 1 0 --model=regression \
    --train_samples=1280 --device=cpu
ends_with 0 a 30
! cat a.out a.err | grep -q libcublas || fail 'the CPU asks for cuBLAS'
nothing_left
