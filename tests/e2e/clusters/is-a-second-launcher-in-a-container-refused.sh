#!/bin/sh
# Two launchers of one run on one host whose variables do not say so, as in two
# containers: is the second one refused if the scheduler gave both the same place,
# or if both use the same GPU? Does the job go on with the node that was missing,
# and does a launcher take the place of one that was killed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network n-0 n-1
plain=$DDPRUN

# on MACHINE NAME VARIABLE... OPTION... PROGRAM...: a launcher with variables.
on()
{
    _where=$1 _as=$2
    shift 2
    DDPRUN=env
    node_on "$_where" "$_as" "$@"
    DDPRUN=$plain
}

# second MACHINE NAME WHY ...: as on, and it is refused at once.
second()
{
    _machine=$1 _name=$2 _why=$3
    shift 3
    began=$(now_ms)
    on "$_machine" "$_name" "$@"
    ends_with 2 "$_name"
    measured "$_name is refused after $(took) ms"
    in_time 2000 "$(took)" 'the refusal'
    has "another ddprun on this host, n-0, and $_why" "$_name.err"
    has 'ntasks-per-node=1' "$_name.err"
    lines 0 "node=$_name " started
}

[ -e "$E2E_BIN/libnvidia-ml.so.1" ] || fail 'make e2e-programs builds a false NVML'

# job NODE: the first run, with what Slurm says; gpus LIST: the second one.
job()
{
    echo "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2
        SLURM_STEP_NODELIST=n-[0-1] SLURM_NODEID=$1 $plain $WORKER gate"
}

gpus()
{
    echo "LD_LIBRARY_PATH=$E2E_BIN FAKE_NVML=$1 $plain --nnodes=2
        --nproc_per_node=gpu --rdzv_endpoint=n-0:29500 $WORKER exit 0"
}

# shellcheck disable=SC2046 # words
{
    on n-0 first $(job 0)
    on n-0 gpu_a $(gpus 'GPU-a+0:1b:0;GPU-b+0:1c:0')
    wait_for 'waiting:' first.err
    wait_for 'waiting:' gpu_a.err
    second n-0 again 'the scheduler gave both the same place' $(job 0)
    on n-1 other $(job 1)
    wait_round 1 2
    kill -KILL "$(pid_of other)"
    nothing_left other
    on n-1 back $(job 1)
    wait_round 2 2
    open_gate
    all_end 0 first back

    second n-1 gpu_b 'the workers of both use the same GPU' $(gpus 'GPU-c+0:1d:0;GPU-b+0:1c:0')
    on n-1 gpu_c $(gpus GPU-c+0:1d:0)
    all_end 0 gpu_a gpu_c
    lines 3 'world=3 ' started
}
nothing_left
