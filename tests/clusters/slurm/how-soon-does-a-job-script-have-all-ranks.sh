#!/bin/sh
# How much later than the tasks of `srun` are all ranks of `ddprun` there, in a job
# of three nodes? Slurm takes up to a second to start a script, so the bar is for
# the time from there; that from the submission is shown beside it.
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

cat >stamp <<'STAMP'
#!/bin/sh
date +%s%3N >>"$1"
STAMP
chmod +x stamp

# took NAME COMMAND...: adds to NAME and NAME.all the ms until the last one's stamp,
# from the start of the script and from its submission.
took()
{
    name=$1
    shift
    rm -f stamps began
    submitted=$(date +%s%3N)
    job=$(submit bench -N3 --wrap "./stamp began; $* ./stamp stamps")
    ended "$job"
    [ "$(wc -l <stamps)" -eq 3 ] || fail "not three stamps of $*"
    last=$(sort -n stamps | tail -n 1)
    echo $((last - $(cat began))) >>"$name"
    echo $((last - submitted)) >>"$name.all"
}

# waited_ms: for how long, since the machine's start, processes waited for a CPU or for
# a disk.
waited_ms()
{
    cat /proc/pressure/cpu /proc/pressure/io 2>/dev/null |
        awk -F 'total=' '/^some/ { us += $2 } END { printf "%d\n", us / 1000 }'
}

began_ms=$(date +%s%3N) began_waited_ms=$(waited_ms)
for i in 1 2 3; do
    took srun srun --ntasks-per-node=1
    took ours ddprun
done
median()
{
    sort -n "$1" | sed -n 2p
}
more=$(($(median ours) - $(median srun)))
# A machine that others use as well gets more, up to three times as much.
busy=$((100 * ($(waited_ms) - began_waited_ms) / ($(date +%s%3N) - began_ms + 1)))
[ $busy -le 100 ] || busy=100
bar=$((300 * ${CLUSTERS_SLOW:-1} * (100 + 2 * busy) / 100))
echo "measured: script to the last of 3: srun $(median srun) ms, ddprun" \
    "$(median ours) ms, $more ms more (bar: $bar); from the submission:" \
    "$(median srun.all) and $(median ours.all) ms"
[ $more -le $bar ] || fail "$more ms more"
