# What the scenarios share; each begins with
#     . "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"
# shellcheck shell=sh
set -u
. "$CLUSTERS/lib/machine.sh"

fail()
{
    echo "no: $*"
    for _file in *.out; do
        [ ! -s "$_file" ] || { echo "--- $_file" && tail -n 40 "$_file"; }
    done
    exit 1
}

# eventually SECONDS COMMAND...: until it succeeds; 1 if it did not in time.
eventually()
{
    _until=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt $_until ] || return 1
        sleep 0.05
    done
}

# count PATTERN FILE
count()
{
    grep -c -- "$1" "$2" 2>/dev/null
}

# has COUNT PATTERN FILE: exactly so many lines; `comes` waits for them.
has()
{
    [ "$(count "$2" "$3")" = "$1" ]
}

comes()
{
    eventually 60 has "$@" ||
        fail "$1 lines with '$2' do not come in $3, but $(count "$2" "$3")"
}

# is COUNT PATTERN FILE: at the end.
is()
{
    has "$@" || fail "$(count "$2" "$3") lines with '$2' in $3, not $1"
}

# submit NAME SBATCH-ARGUMENT...: prints the job's number; output in NAME.out.
submit()
{
    _name=$1
    shift
    sbatch --parsable -o "$PWD/$_name.out" "$@" || fail "sbatch $*"
}

gone()
{
    _left=$(squeue -h -j "$1" -o %T 2>&1) && [ -z "$_left" ]
}

# ended JOB: waits for its end.
ended()
{
    eventually 90 gone "$1" || fail "job $1 does not end"
}

# kill_machine NAME: all that runs there, slurmd too, by SIGKILL.
kill_machine()
{
    ip netns pids "$1" | xargs -r kill -KILL
}

up()
{
    scontrol update "nodename=$1" state=resume 2>/dev/null
    sinfo -h -n "$1" -o %t | grep -qx 'idle\|mix\|alloc'
}

# revive_machine NAME: starts slurmd there again, as after a reboot.
revive_machine()
{
    start_slurmd "$1"
    eventually 60 up "$1" || fail "$1 does not come back"
}

# A worker that says where it is and which signals come, and ends with 0 after
# as many seconds as it is told.
cat >worker <<'WORKER'
#!/bin/bash
for name in TERM USR1 USR2; do
    trap "echo \"rank \$RANK got $name\"; [ $name != TERM ] || ends=1" $name
done
cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
echo "rank $RANK of $WORLD_SIZE on $(hostname) master $MASTER_ADDR" \
    "run $TORCHELASTIC_RUN_ID procid ${SLURM_PROCID-none}" \
    "job ${SLURM_JOB_ID-none} cpus $cpus"
for ((i = 0; i < ${1:-0} * 10; i++)); do
    sleep 0.1
    [ -z "${ends-}" ] || { sleep 0.3 && exit 3; }
done
exit 0
WORKER
chmod +x worker
