#!/bin/sh
# Lists, files and numbers that cannot be right, in each form in which a scheduler
# or a user gives them: does ddprun end with 2, name the variable or the line, say
# what was wanted, and start nothing, here or on a host of the list?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
need_namespace_root 'to lay a file of SageMaker over /opt'

cat >ask <<'ASK'
#!/bin/sh
echo "$*" >>"$E2E_DIR/asked"
ASK
chmod +x ask
: >asked

# refused WHAT COMMAND...
refused()
{
    want=$1
    shift
    STATUS=0
    env "$@" "$WORKER" exit 0 >it.out 2>it.err || STATUS=$?
    [ $STATUS -eq 2 ] || fail "status $STATUS for $*"
    grep -q -- "$want" it.err || fail "no word of '$want' for $*"
    [ ! -s started ] || fail "a worker ran for $*"
    [ ! -s asked ] || fail "a host was asked for $*"
}

step='SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=2'
hosts="$DDPRUN --launch_with=$E2E_DIR/ask"

# A node list.
for list in 'n[1-' 'n[2-1]' 'n[1,x]' 'n1,,n2' 'n1;n2' 'n[1-200000]'; do
    # shellcheck disable=SC2086 # words
    refused 'SLURM_STEP_NODELIST: ' $step SLURM_NODEID=0 \
        SLURM_STEP_NODELIST="$list" "$DDPRUN"
done

# A host that is there twice.
# shellcheck disable=SC2086 # words
{
    refused 'SLURM_STEP_NODELIST: the host n1 is there twice; each must be' \
        $step SLURM_NODEID=0 SLURM_STEP_NODELIST='n1,n[1-2]' "$DDPRUN"
    refused 'SM_HOSTS: the host a is there twice' SM_HOSTS='["a","a"]' \
        SM_CURRENT_HOST=a "$DDPRUN"
    refused "VC_WORKER_HOSTS: the host a is there twice" VC_TASK_INDEX=0 \
        VC_WORKER_HOSTS=a,a "$DDPRUN"
    refused '--hosts=a:2,b,a:2: the host a is there twice' $hosts --hosts=a:2,b,a:2
}

# A rank beyond the number of nodes.
# shellcheck disable=SC2086 # words
{
    refused 'SLURM_NODEID says that this is node 2, but SLURM_STEP_NUM_NODES' \
        $step SLURM_NODEID=2 SLURM_STEP_NODELIST='n[1-2]' "$DDPRUN"
    refused 'OMPI_COMM_WORLD_RANK says that this is node 2' \
        OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=2 "$DDPRUN" \
        --rdzv_endpoint=a:1
    refused 'TPU_WORKER_ID says that this is node 7' TPU_WORKER_ID=7 \
        TPU_WORKER_HOSTNAMES=a,b "$DDPRUN"
    refused 'AWS_BATCH_JOB_NODE_INDEX=-1: must be a whole number from 0' \
        AWS_BATCH_JOB_NODE_INDEX=-1 AWS_BATCH_JOB_NUM_NODES=2 "$DDPRUN"
    refused 'node_rank=2' "$DDPRUN" --nnodes=2 --node_rank=2 --rdzv_endpoint=a:1
}

# A hostfile.
hostfile()
{
    printf '%b' "$2" >hosts
    # shellcheck disable=SC2086 # words
    refused "$1" $hosts --hostfile=hosts
}
hostfile 'hosts: no host is in it; a line must be HOST' '# nobody\n\n'
hostfile "hosts:2: '0' is no number of slots: must be a whole number from 1" \
    'a slots=2\nb slots=0\n'
hostfile "hosts:3: 'cores=4' is not understood: a line must be" 'a\n\nb cores=4\n'
hostfile 'hosts:2: the host a is there twice' 'a slots=2\na slots=2\n'
hostfile "hosts:1: '-oProxyCommand=x' is not a host name" '-oProxyCommand=x\n'
hostfile "hosts:1: '\[::1' is not a host name" '[::1\n'
hostfile 'hostfile=hosts: must be text, and it has a NUL byte' 'a\n\0b\n'
# shellcheck disable=SC2086 # words
{
    refused 'hostfile=nowhere: No such file' $hosts --hostfile=nowhere
    refused 'hostfile=/dev/null: must be a file' $hosts --hostfile=/dev/null
    refused 'PBS_NODEFILE=/nowhere: No such file' PBS_JOBID=4 \
        PBS_NODEFILE=/nowhere "$DDPRUN"
}
printf 'n1 4 q\nn2 many q\n' >pe
refused 'PE_HOSTFILE: line 2: a number of slots must stand behind' JOB_ID=5 \
    PE_HOSTFILE=pe "$DDPRUN"
refused 'LSB_MCPU_HOSTS: a number of slots must stand behind the host b' \
    LSB_JOBID=5 LSB_MCPU_HOSTS='a 1 b' "$DDPRUN"

# SageMaker's file.
cat >sagemaker <<'SAGEMAKER'
#!/bin/sh
mount -t tmpfs tmpfs /opt && mkdir -p /opt/ml/input/config || exit
printf '%s' "$1" >/opt/ml/input/config/resourceconfig.json
shift
exec "$@"
SAGEMAKER
chmod +x sagemaker
file='resourceconfig.json: '
for text in '' '{' '[]' '{"hosts": ["a"]}' '{"hosts": "a", "current_host": "a"}' \
    '{"hosts": [1], "current_host": "a"}' '{"hosts": [], "current_host": "a"}' \
    '{"hosts": ["a", "a"], "current_host": "a"}' \
    '{"hosts": ["a"], "current_host": "a", "network_interface_name": 7}'; do
    refused "$file" TRAINING_JOB_NAME=t unshare --mount ./sagemaker "$text" "$DDPRUN"
done
refused 'resourceconfig.json does not have this host, c, among its 2 hosts' \
    TRAINING_JOB_NAME=t unshare --mount ./sagemaker \
    '{"hosts": ["a", "b"], "current_host": "c"}' "$DDPRUN"
nothing_left
