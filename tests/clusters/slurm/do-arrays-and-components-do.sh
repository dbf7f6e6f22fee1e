#!/bin/sh
# The tasks of an array are jobs of their own: do those that share their nodes each
# find their own, and is only the one requeued that asks for it? A heterogeneous
# job: does its script say how all components are one job, and is that so?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

cat >gate <<'GATE'
#!/bin/sh
echo "rank $RANK of $WORLD_SIZE run $TORCHELASTIC_RUN_ID"
until [ -e "open.$SLURM_ARRAY_TASK_ID" ]; do sleep 0.05; done
GATE
chmod +x gate
array=$(submit 'task-%a' --array=0-1 -N2 --wrap 'exec ddprun --requeue ./gate')
for task in 0 1; do
    comes 2 '^rank [01] of 2 run slurm-[0-9]*\.0$' task-$task.out
done
[ "$(grep -h '^rank' task-?.out | sort -u | wc -l)" -eq 4 ] ||
    fail 'the tasks have one name for two runs'
# The last task has the number of the array.
scancel --batch --signal=USR1 "${array}_1"
comes 1 "Slurm job ${array}_1 is requeued" task-1.out
: >open.0
is_waiting()
{
    [ "$(squeue -h -r -j "$array" -o '%K %T')" = '1 PENDING' ]
}
eventually 20 is_waiting ||
    fail "of the array there is $(squeue -h -r -j "$array" -o '%K %T')"
is 0 'signal' task-0.out
scancel "$array"

job=$(submit het -N1 --wrap 'ddprun ./worker; echo "status $?"
    srun --het-group=0-1 --ntasks-per-node=1 ddprun ./worker; echo "status $?"' \
    : -N2)
ended "$job"
is 1 'srun --het-group=0-1 --ntasks-per-node=1 ddprun' het.out
is 1 '^status 2$' het.out
is 3 '^rank [0-2] of 3 on n[123] ' het.out
is 1 '^status 0$' het.out
