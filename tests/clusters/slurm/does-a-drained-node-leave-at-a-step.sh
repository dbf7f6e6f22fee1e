#!/bin/sh
# An operator drains a node of a job: does it leave at a step, and do the others go
# on from there, though it served the rendezvous? Does a node stay that the job
# cannot spare?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

command -v ddptrain >/dev/null || fail "there is no ddptrain: make builds it"

# drain NODE, undrain NODE
drain()
{
    scontrol update "nodename=$1" state=drain reason="disk of $1"
}
undrain()
{
    scontrol update "nodename=$1" state=resume
}

# Long enough for two looks, a second apart, on a machine that makes ten epochs in
# each.
job=$(submit train -N3 --wrap "ddprun --nnodes=2:3 --drain_check=slurm@1 \
    ddptrain 60 60 --model=linear --batch_size=1 \
    --snapshot_path=$PWD/snap; echo \"status \$?\"")
comes 1 '^epoch 3/60' train.out
drain n1
comes 2 'round [2-9]: rank [01] of 2' train.out
is 1 'this node is to be drained: Slurm says draining: disk of n1: it leaves' train.out
is 1 '^asked to stop' train.out
step=$(sed -n 's/^asked to stop.*saved at step \([0-9]*\)$/\1/p' train.out)
comes 1 "^resuming from .*step $step " train.out

drain n3
comes 1 'this node is to be drained: Slurm says draining: disk of n3: it leaves' train.out
eventually 80 has 1 '^status ' train.out || fail 'the training does not end'
is 1 '^status 0$' train.out
is 2 'round [2-9]: rank ' train.out
is 1 '^asked to stop' train.out
is 1 '^fingerprint' train.out
is 0 'SIGTERM\|SIGKILL' train.out
undrain n1
undrain n3
ended "$job"
lost=$(sed -n "s/.*lost to restarts \([0-9.]*\) s$/\1/p" train.out | sort -n | tail -n 1)
echo "measured: drained at step $step, and the others went on from there, $lost s later"
