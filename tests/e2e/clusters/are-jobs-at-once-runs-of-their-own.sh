#!/bin/sh
# Two elements of an array, or two lines of one script, run at the same time on the
# same hosts: has each all of its ranks, and its own result? The schedulers' commands
# are stand-ins.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network n-0 n-1
make_into
make_commands
PATH=$E2E_DIR/bin:$PATH
export PATH

# job NAME STATUS: a worker that ends when all four of both jobs have begun.
cat >job <<'JOB'
#!/bin/sh
echo "$1 rank $RANK of $WORLD_SIZE on $(hostname) run $TORCHELASTIC_RUN_ID" \
    >>"$E2E_DIR/trained"
until [ "$(wc -l <"$E2E_DIR/trained")" -ge 4 ]; do sleep 0.05; done
exit "$2"
JOB
chmod +x job

# begin NAME STATUS HOST VARIABLE...: a launcher of the job on that host.
begin()
{
    job=$1 status=$2 host=$3
    shift 3
    (in_machine "$host" env "E2E_MARK=$E2E_DIR:$job" "$@" "$DDPRUN" \
        ./job "$job" "$status") >"$job.$host.out" 2>"$job.$host.err" &
    eval "pid_$job=\"\${pid_$job-} $!\""
}

# ended JOB STATUS: all its launchers with that status, its ranks on both hosts.
ended()
{
    eval "pids=\$pid_$1 pid_$1="
    for pid in $pids; do
        wait "$pid"
        status=$?
        [ $status = "$2" ] || fail "$case: job $1 ended with $status, not $2"
    done
    for rank in 0 1; do
        lines 1 "^$1 rank $rank of 2 on n-$rank run " trained
    done
}

# both: the jobs first and second of $case, which have other names.
both()
{
    ended first 0
    ended second 7
    [ "$(sed 's/.* run //' trained | sort -u | wc -l)" = 2 ] ||
        fail "$case: not two runs: $(cat trained)"
    rm trained
    echo "measured: $case"
}

# pair CASE OF-FIRST OF-SECOND COMMON...: two scripts, on the first host.
pair()
{
    case=$1 first=$2 second=$3
    shift 3
    begin first 0 n-0 "$first" "$@"
    begin second 7 n-0 "$second" "$@"
    both
}

printf 'n-0\nn-0\nn-1\nn-1\n' >nodefile
printf 'n-0 2 q U\nn-1 2 q U\n' >slots
lsf='LSB_MCPU_HOSTS=n-0 1 n-1 1'
pair lsf_array LSB_JOBINDEX=1 LSB_JOBINDEX=2 LSB_JOBID=88 "$lsf"
pair lsf_lines A=1 A=2 LSB_JOBID=88 LSB_JOBINDEX=0 "$lsf"
pair pbs_array 'PBS_JOBID=4[1].head' 'PBS_JOBID=4[2].head' PBS_TASKNUM=1 \
    PBS_NODEFILE="$E2E_DIR/nodefile"
pair pbs_lines A=1 A=2 PBS_JOBID=4.head PBS_TASKNUM=1 \
    PBS_NODEFILE="$E2E_DIR/nodefile"
pair sge_array SGE_TASK_ID=1 SGE_TASK_ID=2 JOB_ID=5 PE=ddp \
    PE_HOSTFILE="$E2E_DIR/slots"
pair sge_lines A=1 A=2 SGE_TASK_ID=undefined JOB_ID=5 PE=ddp \
    PE_HOSTFILE="$E2E_DIR/slots"

# `blaunch ddprun` by hand in the script of each element, and one `srun` beside
# another: launchers that find all by themselves.
case=blaunch
for index in 1 2; do
    [ $index = 1 ] && set -- first 0 || set -- second 7
    for host in n-0 n-1; do
        begin "$@" $host LSB_JOBINDEX=$index LSB_JOBID=88 "$lsf" LSF_PM_TASKID=1
    done
done
both
case=srun
for step in 0 1; do
    [ $step = 0 ] && set -- first 0 || set -- second 7
    for node in 0 1; do
        begin "$@" n-$node SLURM_JOB_ID=17 SLURM_STEP_ID=$step \
            SLURM_STEP_NUM_NODES=2 'SLURM_STEP_NODELIST=n-[0-1]' \
            SLURM_NODEID=$node
    done
done
both
nothing_left
