#!/bin/sh
# Forty hosts in one list, more than are started at once: do all get the job, with
# one status, and how long does that take?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

# Forty names for two machines: a run knows its nodes by their launchers.
network a b
make_into
mv into into-machine
cat >into <<'INTO'
#!/bin/sh
machine=$1
shift
case $machine in
*[02468]) exec "$E2E_DIR/into-machine" a "$@" ;;
*) exec "$E2E_DIR/into-machine" b "$@" ;;
esac
INTO
chmod +x into
echo '10.77.0.1 n0' >>hosts
list=n0
for i in $(seq 39); do
    echo "10.77.0.$((1 + i % 2)) n$i" >>hosts
    list=$list,n$i
done
began=$(now_ms)
front --hosts="$list" --launch_timeout=90 "$WORKER" gate
wait_round 1 40 60
measured "40 hosts: all workers run after $(took) ms"
open_gate
ends_with 0 front 40
lines 40 'world=40 ' started
same 40 "$(sed -n 's/.* rank=\([0-9]*\) .*/\1/p' started | sort -u | wc -l)" 'ranks'
nothing_left
