#!/bin/sh
# A launcher in a job script starts one on each node. What Slurm sends to the
# script alone must reach each worker; what it sends to all of the job, which is
# to the workers as well, must not reach them twice. Is it so? Is a job that was
# cancelled not requeued?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

job=$(submit script -N2 --wrap \
    'exec ddprun --requeue --notice_signal=none --nproc_per_node=2 ./worker 120')
comes 4 '^rank [0-3] of 4' script.out
sleep 2
scancel --batch --signal=USR1 "$job"
comes 4 'got USR1' script.out
scancel --full --signal=USR2 "$job"
comes 4 'got USR2' script.out
sleep 2
is 4 'got USR1' script.out
is 4 'got USR2' script.out
scancel "$job"
ended "$job"
is 4 'got TERM' script.out
is 1 "Slurm job $job is not requeued: it is not running any more" script.out

# To the script alone: the job ends with the signal's status, in order.
job=$(submit term -N2 --wrap 'ddprun --nproc_per_node=2 ./worker 120 &
    trap "kill -TERM $!" TERM
    wait; wait $!; echo "status $?"')
comes 4 '^rank [0-3] of 4' term.out
sleep 2
scancel --batch --signal=TERM "$job"
comes 4 'got TERM' term.out
ended "$job"
is 4 'got TERM' term.out
is 1 '^status 143$' term.out
