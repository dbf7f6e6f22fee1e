#!/bin/sh
# A node dies under a job whose script started the launchers: do the others go on,
# and does the job end with status 0, though one of its nodes never answered again?
# So does a step of srun's when the node dies where the job meets.
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

job=$(submit elastic -N3 --no-kill --wrap \
    'ddprun --nnodes=2:3 ./worker 12; echo "status $?"')
comes 3 '^rank [0-2] of 3' elastic.out
sleep 0.5
kill_machine n3
comes 2 '^rank [01] of 2' elastic.out
comes 1 '^status ' elastic.out
is 1 '^status 0$' elastic.out
revive_machine n3
ended "$job"

srun -N3 --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 --wait=0 \
    ddprun --nnodes=2:3 ./worker 20 >step.out 2>&1 &
srun=$!
comes 3 '^rank [0-2] of 3 on n[123] master 10.77.0.11 ' step.out
is 3 'meeting at n1:[0-9]*$' step.out
kill_machine n1
comes 2 '^rank [01] of 2 on n[23] ' step.out
scancel --user=root
kill -KILL $srun # which waits for n1 until Slurm gives that up
revive_machine n1
