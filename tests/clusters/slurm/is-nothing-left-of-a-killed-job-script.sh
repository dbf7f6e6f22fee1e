#!/bin/sh
# The launcher in a job script is killed by kill -9, or its srun is: do the
# launchers on all nodes notice, and end with their workers?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

# workers SECONDS: how many workers that were told so live, on all machines.
workers()
{
    pgrep -fc "^/bin/bash .*worker $1\$"
}

# live SECONDS COUNT: exactly so many; a worker that is about to start its sleep is
# two for a moment.
live()
{
    [ "$(workers "$1")" -eq "$2" ]
}

# What salloc started goes on if ddprun in it is killed: so Slurm ends nothing.
seconds=600 # they would end by themselves long after this
for victim in ddprun srun; do
    seconds=$((seconds + 1))
    salloc -Q -N3 sh -c "ddprun --nproc_per_node=2 ./worker $seconds &
        echo \$! >$victim.pid; wait \$!; echo \"status \$?\"
        until [ -e stop.$victim ]; do sleep 0.1; done" \
        >$victim.out 2>&1 &
    comes 6 '^rank [0-5] of 6' $victim.out
    eventually 60 live $seconds 6 || fail "not six workers are found"
    read -r pid <$victim.pid
    if [ $victim = srun ]; then
        read -r pid _rest <"/proc/$pid/task/$pid/children"
        [ "$(cat "/proc/$pid/comm")" = srun ] || fail "$pid is no srun"
    fi
    began=$(date +%s%3N)
    kill -KILL "$pid"
    eventually 60 live $seconds 0 ||
        fail "$(workers $seconds) workers are left of a killed $victim"
    echo "measured: $victim killed, no worker left after $(($(date +%s%3N) - began)) ms"
    comes 1 '^status ' $victim.out
    : >stop.$victim
    wait
done
