#!/bin/sh
# A node dies under a job whose script started the launchers: do the others go on,
# and does the job end with status 0, though one of its nodes never answered again?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

job=$(submit elastic -N3 --no-kill --wrap \
    'ddprun --nnodes=2:3 ./worker 3; echo "status $?"')
comes 3 '^rank [0-2] of 3' elastic.out
sleep 0.5
kill_machine n3
comes 2 '^rank [01] of 2' elastic.out
comes 1 '^status ' elastic.out
is 1 '^status 0$' elastic.out
revive_machine n3
ended "$job"
