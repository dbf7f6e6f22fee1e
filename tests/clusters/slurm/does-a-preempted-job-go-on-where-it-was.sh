#!/bin/sh
# A job is preempted, or gets notice of its end: do its ranks save at one step and
# leave, does Slurm run it again with --requeue, and is the end the same to the
# bit as that of a job that was left alone? If the grace is over before they have
# saved, is the snapshot before that whole? Without the option, is nothing requeued?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

command -v ddptrain >/dev/null || fail "there is no ddptrain: make builds it"

# Saves take their time where somebody shall come before the end of a training,
# however fast the machine is: while there is a file "paced" a second for each
# flush; while there is a file "slow" longer than the grace.
cat >saves.c <<'SAVES'
#include <fcntl.h>
#include <unistd.h>
static int save(void)
{
    if (access("slow", F_OK) == 0) {
        close(open("began", O_CREAT | O_WRONLY, 0666));
        sleep(30);
        close(open("finished", O_CREAT | O_WRONLY, 0666));
    } else if (access("paced", F_OK) == 0) {
        sleep(1);
    }
    return 0;
}
int fsync(int fd) { (void)fd; return save(); }
int fdatasync(int fd) { (void)fd; return save(); }
SAVES
cc -shared -fPIC -o saves.so saves.c || fail 'cc'

# train NAME COMMAND...: a job of three nodes; the command, and what it trains.
train()
{
    _of=$1
    shift
    submit "$_of" -N3 --open-mode=append --wrap "exec $* env \
        LD_PRELOAD=$PWD/saves.so ddptrain 12 1 \
        --model=linear --batch_size=1 --snapshot_path=$PWD/$_of.snap"
}

# preempt: another job needs all machines, for a moment.
preempt()
{
    urgent=$(submit urgent -p urgent -N3 --exclusive --wrap true)
}

is_in_state()
{
    [ "$(squeue -h -j "$1" -o %T 2>/dev/null)" = "$2" ]
}

# waits JOB: until it is in the queue again.
waits()
{
    eventually 60 is_in_state "$1" PENDING || fail "job $1 is not requeued"
}

fingerprint()
{
    sed -n 's/^fingerprint \([0-9a-f]*\) .*/\1/p' "$1"
}

# runs JOB: soon, where Slurm would wait two minutes (BeginTime), and sets that time
# after the job is back in the queue. slurmd knows in whole seconds since when the
# job's credential of its first life is revoked, and must not take the next one for it.
runs()
{
    case $(squeue -h -j "$1" -o '%T %r' 2>/dev/null) in
    RUNNING*) ;;
    *BeginTime) scontrol update "jobid=$1" starttime=now && false ;;
    *) false ;;
    esac
}

# resumes JOB NAME: its second life, to the end.
resumes()
{
    ended "$urgent"
    waits "$1"
    sleep 2
    eventually 30 runs "$1" ||
        fail "job $1 does not run again: $(scontrol show job "$1" &&
            tail -n 40 "$CLUSTERS_WORK/slurm/log/slurmctld")"
    comes 1 '^fingerprint' "$2.out"
    ended "$1"
    is 1 '^resuming' "$2.out"
    [ "$(fingerprint "$2.out")" = "$wanted" ] || fail "$2 has another end"
}

# saved_step NAME, resumed_step NAME
saved_step()
{
    sed -n 's/^asked to stop.*saved at step \([0-9]*\)$/\1/p' "$1.out"
}
resumed_step()
{
    sed -n 's/^resuming .*step \([0-9]*\) .*/\1/p' "$1.out"
}

# Three at once, side by side on the machines. Notice to the script alone, as sbatch
# --signal=B:USR1@120 gives it; and to all processes of a step, the workers too, as
# --signal=USR1@120 does, where nobody asks for another life.
: >paced
undisturbed=$(train undisturbed ddprun)
noticed=$(train noticed ddprun --requeue)
step=$(train step srun --ntasks-per-node=1 ddprun --notice_signal=USR1)
comes 1 '^epoch 3/12' noticed.out
scancel --batch --signal=USR1 "$noticed"
comes 1 '^epoch 3/12' step.out
scancel --signal=USR1 "$step"
comes 1 "Slurm job $noticed is requeued" noticed.out
is 1 '^asked to stop.*saved at step' noticed.out
is 0 'SIGTERM' noticed.out
ended "$step"
is 1 '^asked to stop.*saved at step' step.out
is 0 'requeued' step.out
is 3 'signal 10 (SIGUSR1): asking' step.out
waits "$noticed"
scancel "$noticed"
rm paced
ended "$undisturbed"
wanted=$(fingerprint undisturbed.out)
[ -n "$wanted" ] || fail 'a job that is left alone does not end'

: >paced
job=$(train preempted ddprun --requeue)
comes 1 '^epoch 3/12' preempted.out
preempt
comes 1 "Slurm job $job is requeued" preempted.out
rm paced
resumes "$job" preempted
step=$(saved_step preempted)
[ -n "$step" ] && [ "$step" = "$(resumed_step preempted)" ] ||
    fail "saved at $step, went on from $(resumed_step preempted)"

# Slurm tells steps of a preemption, and no script: on one node as well.
job=$(submit one -N1 --open-mode=append --wrap "exec ddprun --requeue ddptrain \
    4000 4000 --model=linear --batch_size=1 --snapshot_path=$PWD/one.snap")
comes 1 '^epoch 3/4000' one.out
preempt
comes 1 "Slurm job $job is requeued" one.out
is 1 '^asked to stop: saved at step' one.out
waits "$job"
scancel "$job"
ended "$urgent"

# A save that takes longer than the grace, which is KillWait where somebody
# requeues a job: Slurm kills it in the middle.
: >paced
job=$(train torn ddprun --requeue)
comes 1 '^epoch 3/12' torn.out
: >slow
eventually 60 test -e began || fail 'it does not save'
scontrol requeue "$job"
waits "$job"
[ -e began ] && [ ! -e finished ] || fail 'it was not killed in the middle'
rm slow paced
resumes "$job" torn
echo "measured: saved at step $step and went on from there; killed in a save" \
    "and went on from step $(resumed_step torn)"
