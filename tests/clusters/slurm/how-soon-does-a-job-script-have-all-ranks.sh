#!/bin/sh
# How much later than the tasks of `srun` are all ranks of `ddprun` there, in a job
# of three nodes?
. "${CLUSTERS:?is set by tests/clusters/run}/lib/lib.sh"

cat >stamp <<'STAMP'
#!/bin/sh
date +%s%3N >>"$1"
STAMP
chmod +x stamp

# took FILE COMMAND...: ms from the submission until the last one's stamp.
took()
{
    file=$1
    shift
    rm -f "$file"
    began=$(date +%s%3N)
    job=$(submit bench -N3 --wrap "$*")
    ended "$job"
    [ "$(wc -l <"$file")" -eq 3 ] || fail "not three stamps of $*"
    echo $(($(sort -n "$file" | tail -n 1) - began))
}

: >plain
: >ours
for i in 1 2 3 4 5; do
    took a srun --ntasks-per-node=1 ./stamp a >>plain
    took b ddprun ./stamp b >>ours
done
median()
{
    sort -n "$1" | sed -n 3p
}
more=$(($(median ours) - $(median plain)))
echo "measured: submission to the last of 3: srun $(median plain) ms," \
    "ddprun $(median ours) ms, $more ms more (bar: 300)"
[ $more -le $((300 * ${CLUSTERS_SLOW:-1})) ] || fail "$more ms more"
