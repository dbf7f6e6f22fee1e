#!/bin/sh
# A scheduler that starts several launchers of one run on a host: are they refused
# at once, with what to do? Is what cannot be right refused, and never a job on
# this node alone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# refused WHAT VARIABLE... -- OPTION...: with status 2, within 2 s, and WHAT.
refused()
{
    want=$1
    shift
    began=$(now_ms)
    STATUS=0
    env "$@" "$WORKER" exit 0 >refused.out 2>refused.err || STATUS=$?
    [ $STATUS -eq 2 ] || fail "status $STATUS for $*"
    in_time 2000 "$(took)" "the refusal of $*"
    grep -q -- "$want" refused.err || fail "no word of '$want' for $*"
    [ ! -s started ] || fail "a worker ran for $*"
}

job='SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2 SLURM_NODEID=0'
# shellcheck disable=SC2086 # words
{
    for more in SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE='2(x2)'; do
        refused 'srun --ntasks-per-node=1' $job SLURM_STEP_NODELIST='n[1-2]' \
            $more "$DDPRUN"
        refused 'srun --ntasks-per-node=1' $job SLURM_STEP_NODELIST='n[1-2]' \
            $more "$DDPRUN" --nnodes=2 --rdzv_endpoint=n1:29500
    done
    refused 'ppr:1:node' OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 \
        OMPI_COMM_WORLD_LOCAL_RANK=1 "$DDPRUN" --rdzv_endpoint=n1:29500
    refused 'SLURM_STEP_NODELIST: .*a .]. is missing' $job \
        SLURM_STEP_NODELIST='n[1-2' "$DDPRUN"
    refused 'SLURM_STEP_NUM_NODES=2, but' $job SLURM_STEP_NODELIST=n1 "$DDPRUN"
    refused 'contradict each other' $job SLURM_STEP_NODELIST='n[1-2]' \
        SM_HOSTS='["a","b","c"]' SM_CURRENT_HOST=a "$DDPRUN"
    refused 'does not tell where' OMPI_COMM_WORLD_SIZE=2 \
        OMPI_COMM_WORLD_RANK=1 "$DDPRUN"
}

# Tasks that are a job each, and a user who says no.
for allowed in --standalone --nnodes=1 --cluster=none; do
    : >started
    env SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_LOCALID=1 "$DDPRUN" $allowed \
        "$WORKER" exit 0 >allowed.out 2>&1 || fail "$allowed: status $?"
    lines 1 'world=1 ' started
done

# No scheduler says so: a try.
: >started
port=$(free_port)
for i in a b; do
    node $i --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
    [ $i = b ] || wait_listener "$port"
done
wait_lines 2 'world=2 ' started
open_gate
all_end 0 a b
nothing_left
