#!/bin/sh
# The script of a job runs on one of its nodes. Does a launcher there start one on
# each node, show the output of all once, and end with the job's status? In a
# shell of salloc as well? Does a job of one node still need no step?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

job=$(submit many -N3 --wrap 'ddprun ./worker; echo "status $?"')
ended "$job"
for i in 1 2 3; do
    is 1 "^rank $((i - 1)) of 3 on n$i master 10.77.0.11 run slurm-$job\.0 procid none job $job" many.out
done
is 3 '^rank ' many.out
is 1 "Slurm job $job: starting on its 3 nodes with srun" many.out
is 1 '^status 0$' many.out

# The status is that of the worker that failed.
job=$(submit fails -N3 --wrap "ddprun --nproc_per_node=2 sh -c \
    '[ \$RANK != 3 ] || exit 7; exec sleep 30'; echo \"status \$?\"")
ended "$job"
is 1 '^status 7$' fails.out

# What is wrong is told once, and nothing is started.
job=$(submit wrong -N3 --wrap 'ddprun --nnodes=4 ./worker; echo "status $?"')
ended "$job"
is 1 'nnodes=4: there are only 3 hosts to start on' wrong.out
is 1 '^status 2$' wrong.out
is 0 '^rank ' wrong.out
job=$(submit dry -N3 --wrap 'ddprun --dry_run ./worker')
ended "$job"
is 1 '^srun: srun --nodes=3 ' dry.out
is 0 '^rank ' dry.out

# What the job says of exports and of srun's streams does not matter.
job=$(MINE=yes submit export -N2 --export=ALL --wrap \
    "SLURM_EXPORT_ENV=NONE SLURM_STDINMODE=none ddprun sh -c 'echo mine \$MINE'")
ended "$job"
is 2 '^mine yes$' export.out

# Nor how many tasks and CPUs it asked for: there is one launcher on each node.
job=$(submit tasks -N2 --ntasks-per-node=2 --cpus-per-task=2 --wrap \
    'ddprun --nproc_per_node=2 ./worker')
ended "$job"
is 4 '^rank [0-3] of 4 on n[123] ' tasks.out
is 0 'workers share' tasks.out

salloc -Q -N2 ddprun ./worker >salloc.out 2>&1 || fail "salloc ended with $?"
is 2 '^rank [01] of 2 on n[12] ' salloc.out
salloc -Q -N2 ddprun sh -c 'exit 9' >nine.out 2>&1
[ $? -eq 9 ] || fail "salloc ended with another status than the worker"

job=$(submit one -N1 --wrap 'ddprun --nproc_per_node=2 ./worker')
ended "$job"
is 2 '^rank [01] of 2 on n[123] master 127.0.0.1 run slurm-' one.out

job=$(submit alone -N3 --wrap 'ddprun --standalone ./worker')
ended "$job"
is 1 '^rank 0 of 1 on n[123]' alone.out
