#!/bin/sh
# A task that is bound to one core of a step that has more: is that told, and do
# the workers have all CPUs of the step, if the kernel allows no others? Is a step
# of one CPU told?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

# The machines have 4 CPUs by their word, and the kernel allows those of this one.
cpus=$(nproc)
[ "$cpus" -gt 1 ] || fail "this machine has one CPU, there is nothing to widen"
core="srun --ntasks=1 --cpu-bind=cores"
job=$(submit all -N1 --ntasks=4 --wrap "$core ddprun ./worker")
ended "$job"
if [ "$cpus" -le 4 ]; then
    is 1 "Slurm bound this task to CPU 0: the workers use all $cpus CPUs" all.out
    is 1 "cpus 0-$((cpus - 1))\$" all.out
else
    is 1 'Slurm bound this task to CPU 0, and all workers of this node share it' all.out
    is 1 'cpus 0$' all.out
fi

job=$(submit keep -N1 --ntasks=4 --wrap "$core ddprun --cpu_bind=keep ./worker")
ended "$job"
is 0 'Slurm bound this task' keep.out
is 1 'cpus 0$' keep.out

# No binding, no word.
job=$(submit wide -N1 --exclusive --ntasks=1 --wrap 'srun ddprun ./worker')
ended "$job"
is 1 '^rank 0 of 1' wide.out
is 0 'Slurm bound this task' wide.out

job=$(submit few -N1 --ntasks=1 \
    --wrap 'srun ddprun --nproc_per_node=2 ./worker')
ended "$job"
is 1 'the step has 1 CPU on this node, and 2 workers share it' few.out
is 2 'cpus 0$' few.out
