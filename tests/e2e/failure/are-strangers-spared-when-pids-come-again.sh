#!/bin/sh
# A storm of processes whose pids are used again within milliseconds, beside a
# launch that restarts and sweeps: is any of them hit?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/strangers.sh"
need_tools python3
need_namespaces
leaver

# It makes the next pids small ones, its own and the launch's.
cat >storm.py <<'PY'
import os, random, sys, time

again = open("/proc/sys/kernel/ns_last_pid", "w", buffering=1)
made = hit = 0
alive = set()
while alive or not os.path.exists("launch.status"):
    if len(alive) < 20 and not os.path.exists("launch.status"):
        again.seek(0)
        again.write("100")
        again.flush()
        pid = os.fork()
        if pid == 0:
            time.sleep(random.random() * 0.004)
            os._exit(0)
        alive.add(pid)
        made += 1
        if made == 50:
            open("storm.ready", "w").close()
    pid, status = os.waitpid(-1, 0 if len(alive) >= 20 else os.WNOHANG)
    if pid > 0:
        alive.discard(pid)
        hit += os.WIFSIGNALED(status)
print("made=%d hit=%d" % (made, hit))
PY
cat >both <<'BOTH'
mount=$1
shift
python3 storm.py >storm.out 2>storm.err &
storm=$!
until [ -e storm.ready ]; do
    sleep 0.01
done
[ $mount = own ] || umount /proc
status=0
E2E_MARK=$E2E_DIR:it "$@" >it.out 2>it.err 9<&- || status=$?
echo $status >launch.status
wait $storm
BOTH
for proc in own parents; do
    rm -f launch.status storm.ready
    background both unshare -fpm --kill-child sh -c '
        mount -t proc proc /proc && exec sh both "$@"' sh $proc \
        "$DDPRUN" --cgroup=none --nproc_per_node=4 --max_restarts=20 ./leaver 20
    ends_with 0 both 40
    [ -s storm.out ] || skip "pids cannot be chosen here: $(tail -n 1 storm.err)"
    same 0 "$(cat launch.status)" 'status of the launch'
    measured "/proc $proc: $(cat storm.out)"
    has ' hit=0$' storm.out
    nothing_left
done
