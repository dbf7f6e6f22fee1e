#!/bin/sh
# Does every worker find the whole environment that torchrun gives, and are
# stale values of the launcher's own environment gone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

export RANK=77 WORLD_SIZE=77 LOCAL_RANK=77 MASTER_ADDR=nowhere MASTER_PORT=1
export GROUP_RANK=77 TORCHELASTIC_RUN_ID=stale TORCHELASTIC_RESTART_COUNT=9
export KEPT='a value with  blanks'
unset OMP_NUM_THREADS TORCH_NCCL_ASYNC_ERROR_HANDLING
# shellcheck disable=SC2016 # for the worker
launch 0 --nproc_per_node=3 --role=learner --max_restarts=4 --rdzv_id=job-7 \
    --standalone --log_dir="$LOG_DIR" sh -c 'env >"$E2E_DIR/env.$RANK"'

for rank in 0 1 2; do
    for var in RANK=$rank WORLD_SIZE=3 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 \
        GROUP_RANK=0 GROUP_WORLD_SIZE=1 ROLE_RANK=$rank ROLE_WORLD_SIZE=3 \
        ROLE_NAME=learner MASTER_ADDR=127.0.0.1 TORCHELASTIC_RESTART_COUNT=0 \
        TORCHELASTIC_MAX_RESTARTS=4 TORCHELASTIC_RUN_ID=job-7 \
        TORCHELASTIC_USE_AGENT_STORE=True TORCH_NCCL_ASYNC_ERROR_HANDLING=1 \
        OMP_NUM_THREADS=1 'KEPT=a value with  blanks'; do
        lines 1 "^$var\$" env.$rank
    done
    lines 1 "^MASTER_PORT=[1-9][0-9]*$" env.$rank
    has_not '^MASTER_PORT=1$' env.$rank
    path="$LOG_DIR/job-7_[^/]\\{8\\}/attempt_0/$rank/error.json"
    lines 1 "^TORCHELASTIC_ERROR_FILE=$path$" env.$rank
    # Nothing is there twice: some programs take the first one, some the last.
    same '' "$(sed -n 's/^\([A-Z_]*\)=.*/\1/p' env.$rank | sort | uniq -d)" \
        'variables that are there twice'
done
has_not . it.err
