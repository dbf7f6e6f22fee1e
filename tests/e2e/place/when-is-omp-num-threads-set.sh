#!/bin/sh
# Is OMP_NUM_THREADS 1 only where there are several workers and the user said
# nothing?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

threads()
{
    # shellcheck disable=SC2016 # for the worker
    launch 0 "$@" sh -c '
        echo "${OMP_NUM_THREADS-unset} ${TORCH_NCCL_ASYNC_ERROR_HANDLING-unset}"'
    sort -u it.out
}
unset OMP_NUM_THREADS TORCH_NCCL_ASYNC_ERROR_HANDLING
same 'unset 1' "$(threads)" 'one worker'
same '1 1' "$(threads --nproc-per-node 2)" 'two workers'
export OMP_NUM_THREADS=6 TORCH_NCCL_ASYNC_ERROR_HANDLING=0
same '6 0' "$(threads --nproc-per-node 2)" 'two workers, set by the user'

# A surprise to the users of torchrun: of a Python program it is told, once.
command -v python3 >/dev/null || exit 0
echo 'pass' >train.py
launch 0 --nproc_per_node=2 train.py
has_not OMP_NUM_THREADS it.err
unset OMP_NUM_THREADS
launch 0 train.py
has_not OMP_NUM_THREADS it.err
launch 0 --nproc_per_node=2 train.py
lines 1 'OMP_NUM_THREADS is not set: each worker gets 1' it.err
