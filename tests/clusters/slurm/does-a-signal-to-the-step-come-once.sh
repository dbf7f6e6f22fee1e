#!/bin/sh
# Slurm signals each process of a step, the workers too: does the launcher pass
# on only what was sent to itself alone?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

# A worker that has just started may not have been seen by Slurm: the launcher
# sends it the signal as well.
settle()
{
    sleep 2
}

job=$(submit step -N2 --ntasks-per-node=1 \
    --wrap 'srun ddprun --nproc_per_node=2 ./worker 120')
comes 4 '^rank [0-3] of 4' step.out
settle
scancel --signal=USR1 "$job"
comes 4 'got USR1' step.out
scancel --signal=USR2 "$job.0"
comes 4 'got USR2' step.out
sleep 0.5
is 4 'got USR1' step.out
is 4 'got USR2' step.out
scancel "$job"
ended "$job"
is 4 'got TERM' step.out

# To the launcher alone, which is the job's script here; then to all.
job=$(submit batch -N1 --wrap 'exec ddprun --nproc_per_node=2 ./worker 120')
comes 2 '^rank [01] of 2' batch.out
settle
scancel --batch --signal=USR1 "$job"
comes 2 'got USR1' batch.out
scancel --full --signal=USR2 "$job"
comes 2 'got USR2' batch.out
sleep 0.5
is 2 'got USR1' batch.out
is 2 'got USR2' batch.out
scancel "$job"
ended "$job"
is 2 'got TERM' batch.out
