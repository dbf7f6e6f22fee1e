#!/bin/sh
# pkill -9 ddprun where standbys wait: neither they nor what imports ahead for them
# are left.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cat >program.py <<'END'
import signal
import subprocess
import standbys
subprocess.Popen(["sleep", "300"], start_new_session=True)
standbys.wait(2)
print("two standbys", flush=True)
signal.pause()
END
background it "$DDPRUN" --cgroup=none --nproc_per_node=2 --max_restarts=3 \
    --standby=json program.py
wait_for 'two standbys' it.out 60
named=
for pid in $(marked it); do
    case $(cat "/proc/$pid/comm") in *ddprun*) named="$named $pid" ;; esac
done
began=$(now_ms)
# shellcheck disable=SC2086 # pids
kill -KILL $named
nothing_left it 2
measured "all gone after $(took) ms"
