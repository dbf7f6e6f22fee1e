#!/bin/sh
# Two workers import for some seconds and then never rest. The standbys are ready within
# three times the time that the slower one's imports took.
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/standbys.sh"

cat >site-packages/takes_cpu.py <<'PY'
import time
until = time.process_time() + 2
while time.process_time() < until:
    pass
PY
cat >program.py <<'PY'
import os, time
began = time.monotonic()
import takes_cpu
took = int((time.monotonic() - began) * 1000)
root = os.environ["E2E_DIR"]
with open(f"{root}/took.{os.environ['RANK']}", "w") as file:
    file.write(f"{took}\n")
with open(os.environ["DDP_PROGRESS_FILE"], "w") as file:
    file.write("1")
while not os.path.exists(root + "/enough"):
    pass
PY
background it "$DDPRUN" --nproc_per_node=2 --max_restarts=1 --standby=auto program.py
eventually 60 test -s took.0 || fail 'rank 0 does not import'
eventually 60 test -s took.1 || fail 'rank 1 does not import'
imported=$(now_ms)
wait_for '1 module is imported ahead' it.err 60
took=$(($(now_ms) - imported))
imports=$(sort -n took.0 took.1 | tail -n 1)
echo "measured: imports in $imports ms, ready after $took ms beside busy workers"
in_time $((3 * imports)) "$took" 'until the standbys are ready'
: >enough
ends_with 0 it
