# start_slurmd NAME: slurmd on a machine, in the background.
# shellcheck shell=sh
start_slurmd()
{
    _log=$CLUSTERS_WORK/slurm/log/slurmd.$1.out
    nsenter --net="/run/netns/$1" unshare --uts sh -c "hostname $1 &&
        exec slurmd -D -N $1 -f '$SLURM_CONF'" >>"$_log" 2>&1 &
}
