#!/bin/sh
# Two launchers of one run on one host were a wrong job without a word: are both
# refused at once, and are sweeps of separate jobs still allowed?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

began=$(date +%s%3N)
srun -N2 --ntasks-per-node=2 ddprun --nnodes=2 --nproc_per_node=2 \
    --rdzv_endpoint=n1:29500 ./worker >flags.out 2>&1
status=$?
took=$(($(date +%s%3N) - began))
[ $status -eq 2 ] || fail "srun ended with $status"
[ $took -lt 2000 ] || fail "refused after $took ms"
echo "measured: refused after $took ms"
is 4 'more than one ddprun of this run was started on one host' flags.out
is 4 'srun --ntasks-per-node=1' flags.out
is 0 '^rank ' flags.out

srun -N1 --ntasks=2 ddprun ./worker >none.out 2>&1
[ $? -eq 2 ] || fail "without flags srun ended with another status"
is 2 'more than one ddprun of this run' none.out
is 0 '^rank ' none.out

# Each task a job of its own.
srun -N1 --ntasks=3 ddprun --standalone ./worker >sweep.out 2>&1 ||
    fail "the sweep ended with $?"
is 3 '^rank 0 of 1 on n[123] master 127.0.0.1' sweep.out
srun -N1 --ntasks=2 ddprun --nnodes=1 ./worker >one.out 2>&1 ||
    fail "the sweep with --nnodes=1 ended with $?"
is 2 '^rank 0 of 1 on n[123]' one.out
