#!/bin/sh
# Does a launcher on each node of a step find nodes, rank, endpoint and the run's
# name, with no flag at all? Do workers have the job's variables, and not those
# of the launcher's task?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

srun -N3 --ntasks-per-node=1 ddprun ./worker >run.out 2>&1 ||
    fail "srun ended with $?"
for i in 1 2 3; do
    is 1 "^rank $((i - 1)) of 3 on n$i master 10.77.0.11 run slurm-[0-9]*\.0 procid none job [0-9]" run.out
done
is 3 'Slurm job [0-9]*: 3 nodes, this is n[123] (node [012]), meeting at n1:2' run.out

# The nodes of the step count, not those of the job.
job=$(submit step -N3 --ntasks-per-node=1 --wrap 'srun -N2 -n2 ddprun ./worker')
ended "$job"
is 2 '^rank [01] of 2 on n' step.out

# What is said wins, and --dry_run says what is from where.
srun -N2 --ntasks-per-node=1 ddprun --nproc_per_node=2 --rdzv_id=mine \
    ./worker >said.out 2>&1 || fail "srun ended with $?"
is 4 '^rank [0-3] of 4 on n[12] master 10.77.0.11 run mine' said.out
srun -N2 --ntasks-per-node=1 ddprun --dry_run ./worker >dry.out 2>&1 ||
    fail "srun ended with $?"
is 2 ' --nnodes=2 from SLURM_STEP_NUM_NODES' dry.out
is 1 ' --node_rank=1 from SLURM_NODEID' dry.out
is 2 ' --rdzv_endpoint=n1:2[0-9]* from SLURM_STEP_NODELIST' dry.out

# A step of one node is a job of one node.
srun -N1 ddprun --nproc_per_node=2 ./worker >one.out 2>&1 ||
    fail "srun ended with $?"
is 2 '^rank [01] of 2 on n[123] master 127.0.0.1 run slurm-' one.out
