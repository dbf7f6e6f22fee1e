#!/bin/sh
# The job scripts in examples for PBS, LSF and Flux as they are, and the commands of
# those for SageMaker, AWS Batch, Volcano and TPU: do the workers of both hosts meet?
# The schedulers' own commands, ssh too, are stand-ins that start a program on a host.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"
. "$E2E_LIB/manifests.sh"

network n-0 n-1
command -v python3 >/dev/null || skip 'needs python3'
make_into
examples=$E2E_DIR/examples # a host has a /tmp of its own, perhaps with the project
cp -r "$E2E_LIB/../../../examples" "$examples"
mkdir bin
cp "$DDPRUN" bin/ddprun

# A program of each worker, which all hosts see.
cat >train.py <<'PY'
import os, socket
with open(os.environ["E2E_DIR"] + "/trained", "a") as f:
    print(os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on",
          socket.gethostname(), file=f)
PY
make_commands
cat >bin/flux <<'FLUX'
#!/bin/sh
case $1 in
hostlist)
    [ "$*" = 'hostlist --nth=0 local' ] && echo n-0
    exit
    ;;
esac
shift # run
while [ "${1#-}" != "$1" ]; do shift; done
for rank in 0 1; do
    "$E2E_DIR/into" n-$rank env --chdir="$E2E_DIR" PATH="$PATH" \
        FLUX_JOB_ID=f7 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=$rank \
        FLUX_TASK_LOCAL_ID=0 "$@" </dev/null &
done
wait
FLUX
chmod +x bin/*
PATH=$E2E_DIR/bin:$PATH
export PATH

# trained WORLD NAME: each rank of it once, half of them on each host.
trained()
{
    for rank in $(seq 0 $(($1 - 1))); do
        lines 1 "^$rank of $1 on n-" trained
    done
    lines $(($1 / 2)) 'on n-0$' trained
    lines $(($1 / 2)) 'on n-1$' trained
    rm trained
    echo "measured: $2"
}

# batch NAME FILE VARIABLE...: the script, on the first host.
batch()
{
    name=$1 file=$2
    shift 2
    (in_machine n-0 env "E2E_MARK=$E2E_DIR:$name" "$@" sh "$examples/$file") \
        >"$name.out" 2>"$name.err" || fail "$file: status $?"
    trained 2 "$name"
}

printf 'n-0\nn-0\nn-1\nn-1\n' >nodefile
batch pbs pbs/train.pbs PBS_JOBID=4.head PBS_O_WORKDIR="$E2E_DIR" \
    PBS_TASKNUM=1 PBS_NODEFILE="$E2E_DIR/nodefile"
has 'PBS job 4.head: starting on its 2 hosts with ssh' pbs.err
batch lsf lsf/train.lsf LSB_JOBID=88 LSB_MCPU_HOSTS='n-0 1 n-1 1'
has 'LSF job 88: starting on its 2 hosts with blaunch' lsf.err
batch flux flux/train.flux FLUX_JOB_ID=f7

# both NAME COMMON -- OF-N-0 -- OF-N-1 -- COMMAND...: on each host.
both()
{
    name=$1 first=$2 second=$3 common=$4
    shift 4
    for i in 0 1; do
        [ $i = 0 ] && own=$first || own=$second
        # shellcheck disable=SC2086 # words
        (in_machine n-$i env "E2E_MARK=$E2E_DIR:$name$i" $common $own "$@" \
            train.py) >"$name$i.out" 2>"$name$i.err" &
        eval "pid_$name$i=$!"
    done
    all_end 0 "${name}0" "${name}1"
    trained 2 "$name"
}

# words_of FILE KEY: the words of a list in JSON, without train.py.
words_of()
{
    sed -n "s/.*\"$2\": \[\(.*\)\].*/\1/p" "$examples/$1" | tr -d '",' |
        sed 's/train.py//'
}

# shellcheck disable=SC2046 # words
{
    both sagemaker SM_CURRENT_HOST=n-0 SM_CURRENT_HOST=n-1 \
        'TRAINING_JOB_NAME=train-1 SM_HOSTS=["n-0","n-1"]' \
        $(words_of sagemaker/training-job.json ContainerEntrypoint)
    address=AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS
    both awsbatch 'AWS_BATCH_JOB_ID=4c-1#0 AWS_BATCH_JOB_NODE_INDEX=0' \
        "AWS_BATCH_JOB_ID=4c-1#1 AWS_BATCH_JOB_NODE_INDEX=1 $address=10.77.0.1" \
        'AWS_BATCH_JOB_NUM_NODES=2 AWS_BATCH_JOB_MAIN_NODE_INDEX=0' \
        $(words_of awsbatch/job-definition.json command)
    both volcano VC_TASK_INDEX=0 VC_TASK_INDEX=1 \
        'VC_NODE_HOSTS=n-0,n-1 VC_NODE_NUM=2' $(command_of volcano)
    both tpu 'TPU_WORKER_ID=0 JOB_COMPLETION_INDEX=0' \
        'TPU_WORKER_ID=1 JOB_COMPLETION_INDEX=1' TPU_WORKER_HOSTNAMES=n-0,n-1 \
        $(command_of tpu)
}
nothing_left
