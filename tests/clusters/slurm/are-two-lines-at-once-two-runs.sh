#!/bin/sh
# Two lines of ddprun run at once in one job's script, on the same nodes, and two of
# srun: has each all of its ranks, and its own result?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

# job CASE NAME STATUS: a worker that ends when all four of both lines have begun.
cat >job <<'JOB'
#!/bin/sh
echo "$2 rank $RANK of $WORLD_SIZE on $(hostname) run $TORCHELASTIC_RUN_ID"
: >"up.$1.$2.$RANK"
until [ "$(ls "up.$1".* | wc -l)" -ge 4 ]; do sleep 0.05; done
exit "$3"
JOB
chmod +x job

# both CASE COMMAND: the two lines; steps of one job share its CPUs.
both()
{
    job=$(submit "$1" -N2 --exclusive --wrap "export SLURM_OVERLAP=1
        $2 ./job $1 first 0 & first=\$!
        $2 ./job $1 second 7 & second=\$!
        wait \$first; echo \"first ends with \$?\"
        wait \$second; echo \"second ends with \$?\"")
    ended "$job"
    for name in first second; do
        for rank in 0 1; do
            is 1 "^$name rank $rank of 2 on n[12] run slurm-$job\.[01]\$" "$1.out"
        done
    done
    [ "$(sed -n 's/^[a-z]* rank .* run //p' "$1.out" | sort -u | wc -l)" = 2 ] ||
        fail "$1: not two runs"
    is 1 '^first ends with 0$' "$1.out"
    is 1 '^second ends with 7$' "$1.out"
}
both lines ddprun
both steps 'srun --ntasks-per-node=1 ddprun'
