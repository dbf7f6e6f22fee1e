#!/bin/sh
# The tasks of an array are jobs of their own: do those that share their nodes each
# find their own, and is only the one requeued that asks for it? Are the components
# of a heterogeneous job one job, from its script alone and by srun?
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
eventually 60 is_waiting ||
    fail "of the array there is $(squeue -h -r -j "$array" -o '%K %T')"
is 0 'signal' task-0.out
scancel "$array"

# each LINE: one job of the nodes of all components, of three workers.
each()
{
    is 1 '^status 0$' "$1"
    is 3 '^rank [0-2] of 3 on n[123] ' "$1"
    [ "$(sed -n 's/^rank . of 3 on \([^ ]*\) .*/\1/p' "$1" | sort -u | wc -l)" = 3 ] ||
        fail "not three nodes in $1"
}
job=$(submit het -N1 --wrap 'ddprun ./worker; echo "status $?"' : -N2)
ended "$job"
each het.out
is 1 "Slurm job $job: starting on its 3 nodes with srun" het.out
job=$(submit step -N1 --wrap 'srun --het-group=0-1 --ntasks-per-node=1 ddprun \
    ./worker; echo "status $?"' : -N2)
ended "$job"
each step.out

# A signal to the script reaches the workers of all components, each once.
job=$(submit held -N1 --wrap 'exec ddprun ./worker 30' : -N1)
comes 2 '^rank [01] of 2 ' held.out
scancel --batch --signal=USR1 "$job"
comes 2 '^rank [01] got USR1$' held.out
scancel "$job"
ended "$job"
is 2 '^rank [01] got TERM$' held.out
