#!/bin/sh
# The script of a job runs on one of its nodes: a launcher there would train on
# that one only, without a word. Is it told to use srun? Does a job of one node
# need no srun?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

job=$(submit many -N3 --wrap 'ddprun ./worker; echo "status $?"')
ended "$job"
is 1 'has 3 nodes, and this is its job script' many.out
is 1 'by srun --ntasks-per-node=1 ddprun' many.out
is 1 'status 2' many.out
is 0 '^rank ' many.out

job=$(submit one -N1 --wrap 'ddprun --nproc_per_node=2 ./worker')
ended "$job"
is 2 '^rank [01] of 2 on n[123] master 127.0.0.1 run slurm-' one.out

job=$(submit alone -N3 --wrap 'ddprun --standalone ./worker')
ended "$job"
is 1 '^rank 0 of 1 on n[123]' alone.out
