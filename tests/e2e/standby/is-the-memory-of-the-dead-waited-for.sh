#!/bin/sh
# A job in a cgroup with 1.2 times the memory that it takes, of which one worker has
# most, and is killed. Its death is known as it begins. Does the next round wait until
# that memory is free, so that the kernel kills none for want of it? KILLS=100 for the
# long run.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"
memory_group 4000
kills=${KILLS:-2}

cat >program.py <<'END'
import os, signal, sys, time
import standbys
rank, life = (int(os.environ[n]) for n in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
kills = int(sys.argv[1])
if life < kills:
    standbys.wait(2)
if rank == 1:
    os.nice(10)  # on a busy machine the launcher runs before all of this is gone
    data = bytearray(300 << 20)
    data[::4096] = b"x" * len(data[::4096])
if life == kills:
    sys.exit(0)
open(f"pid{life}.{rank}.new", "w").write(str(os.getpid()))
os.rename(f"pid{life}.{rank}.new", f"pid{life}.{rank}")
while True:
    time.sleep(0.01)
END
background it ./in_group "$DDPRUN" --nproc_per_node=2 --max_restarts="$kills" \
    --standby=auto program.py "$kills"
for life in $(seq 0 $((kills - 1))); do
    for rank in 0 1; do
        eventually 60 test -e "pid$life.$rank" || fail "life $life does not come so far"
    done
    sleep 1 # two beats, at which the launcher looks who may be watched
    [ "$life" -gt 0 ] || limit_memory $(($(memory_used) * 12 / 10))
    kill -KILL "$(cat "pid$life.1")"
done
ends_with 0 it
same "$kills" "$(grep -c 'rank 1 (pid [0-9]*): signal 9 (SIGKILL)' it.err)" \
    'words on the death of rank 1'
has_not 'rank 0 (pid' it.err
has_not 'memory' it.err
nothing_left
