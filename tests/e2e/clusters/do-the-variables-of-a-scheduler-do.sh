#!/bin/sh
# Two machines that have nothing but the variables and files of a scheduler: do
# their launchers meet without a flag, and has each its place? What tells less
# needs the one flag that is missing.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/manifests.sh"

network n-0 n-1
launcher=$DDPRUN
DDPRUN=env

# meet NAME N-0'S N-1'S COMMON...: variables with semicolons between, of each
# node; then what both have, and the line.
meet()
{
    case=$1 first=$2 second=$3
    shift 3
    : >started
    for i in 0 1; do
        [ $i = 0 ] && own=$first || own=$second
        IFS=';'
        # shellcheck disable=SC2086 # a word for each variable
        set -- $own "$@"
        unset IFS
        node_on n-$i "$case$i" "$@"
        n=$(echo "$own" | tr -cd ';' | wc -c)
        shift $((n + 1))
    done
    all_end 0 "${case}0" "${case}1"
    [ "$(grep -c "^round=1 rank=[01] world=2 .*node=$case[01] " started)" = 2 ] ||
        fail "$case: not two nodes of one world"
    grep -q "^round=1 rank=1 world=2 .*node=${case}1 " started ||
        fail "$case: n-1 is not node 1"
    echo "measured: $case"
}

printf 'n-0\nn-0\nn-1\nn-1\n' >nodefile
line="$launcher $WORKER exit 0"

# sagemaker COMMAND...: where SageMaker has told of two hosts in its file.
cat >sagemaker <<'SAGEMAKER'
#!/bin/sh
mount -t tmpfs tmpfs /opt && mkdir -p /opt/ml/input/config || exit
printf '{"current_host": "%s", "hosts": ["n-0", "n-1"],
    "network_interface_name": "eth0"}' "$(hostname)" \
    >/opt/ml/input/config/resourceconfig.json
exec "$@"
SAGEMAKER
chmod +x sagemaker
# shellcheck disable=SC2086 # words
{
    meet slurm SLURM_NODEID=0 SLURM_NODEID=1 SLURM_JOB_ID=17 SLURM_STEP_ID=0 \
        SLURM_STEP_NUM_NODES=2 'SLURM_STEP_NODELIST=n-[0-1]' $line
    meet sagemaker SM_CURRENT_HOST=n-0 SM_CURRENT_HOST=n-1 \
        'SM_HOSTS=["n-0","n-1"]' TRAINING_JOB_NAME=train-1 $line
    meet sagemaker_file A=1 A=2 TRAINING_JOB_NAME=train-1 ./sagemaker \
        $launcher sh -c 'echo "interface=$NCCL_SOCKET_IFNAME,$GLOO_SOCKET_IFNAME"
            exec "$@"' sh "$WORKER" exit 0
    has interface=eth0,eth0 sagemaker_file0.out
    has interface=eth0,eth0 sagemaker_file1.out
    (in_machine n-1 env TRAINING_JOB_NAME=train-1 ./sagemaker $launcher \
        --dry_run true) >dry.out
    has '    --nnodes=2 from /opt/ml/input/config/resourceconfig.json' dry.out
    has '    --node_rank=1 from /opt/ml/input/config/resourceconfig.json' dry.out
    has '    --rdzv_id=sagemaker-train-1 from TRAINING_JOB_NAME' dry.out
    has ' NCCL_SOCKET_IFNAME=eth0 from .*: network_interface_name' dry.out
    # The main node may be any, and each node has a job id of its own.
    main=AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS
    meet batch 'AWS_BATCH_JOB_ID=4c-1#0;AWS_BATCH_JOB_NODE_INDEX=0' \
        "AWS_BATCH_JOB_ID=4c-1#1;AWS_BATCH_JOB_NODE_INDEX=1;$main=10.77.0.1" \
        AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_MAIN_NODE_INDEX=0 $line
    meet batch_last \
        "AWS_BATCH_JOB_ID=4c-1#0;AWS_BATCH_JOB_NODE_INDEX=0;$main=10.77.0.2" \
        'AWS_BATCH_JOB_ID=4c-1#1;AWS_BATCH_JOB_NODE_INDEX=1' \
        AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_MAIN_NODE_INDEX=1 $line
    meet volcano VC_TASK_INDEX=0 VC_TASK_INDEX=1 VC_WORKER_HOSTS=n-0,n-1 $line
    meet tpu TPU_WORKER_ID=0 TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=n-0,n-1 $line
    meet pbs A=1 A=2 PBS_JOBID=4.head "PBS_NODEFILE=$E2E_DIR/nodefile" $line
    meet lsf LSF_PM_TASKID=1 LSF_PM_TASKID=2 LSB_JOBID=88 'LSB_MCPU_HOSTS=n-0 2 n-1 2' $line
    meet flux FLUX_TASK_RANK=0 FLUX_TASK_RANK=1 FLUX_JOB_ID=f FLUX_JOB_NNODES=2 \
        "$launcher" --rdzv_endpoint=n-0:29500 "$WORKER" exit 0
    meet mpirun OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_RANK=1 \
        OMPI_COMM_WORLD_SIZE=2 \
        "$launcher" --rdzv_endpoint=n-0:29500 "$WORKER" exit 0
    meet k8s JOB_COMPLETION_INDEX=0 JOB_COMPLETION_INDEX=1 \
        "$launcher" --nnodes=2 "$WORKER" exit 0

    # Operators, by the commands of examples/k8s.
    pet='PET_NNODES=2 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=n-0
        PET_MASTER_PORT=29400'
    a=$(gpu_of a | tr '\n' ';') b=$(gpu_of b | tr '\n' ';')
    PATH=$E2E_BIN:$PATH
    meet trainjob "${a}JOB_COMPLETION_INDEX=0;PET_NODE_RANK=0" \
        "${b}JOB_COMPLETION_INDEX=1;PET_NODE_RANK=1" $pet \
        $(command_of trainjob) "$WORKER" exit 0
    meet pytorchjob "${a}A=1" "${b}A=2" PET_NNODES=2:2 PET_MAX_RESTARTS=3 \
        PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=n-0:23456 \
        $(command_of pytorchjob) "$WORKER" exit 0
    meet jobset "${a}JOB_COMPLETION_INDEX=0" "${b}JOB_COMPLETION_INDEX=1" \
        PET_RDZV_CONF=last_call_timeout=0.1 $(command_of jobset) "$WORKER" exit 0
}
DDPRUN=$launcher
nothing_left
