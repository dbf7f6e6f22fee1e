#!/bin/sh
# Two nodes, of which the second one comes late; a worker fails, and the next
# round repeats some steps. Is the goodput of the report, of ddpctl and of
# /metrics what the events of both nodes sum up to?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
# Steps 0 to 14, the last of which fails; then from 0 until it is enough.
# shellcheck disable=SC2016 # for the worker
train='step=0
    while [ "$DDP_ROUND" = 2 ] || [ $step -lt 15 ]; do
        echo $step >"$DDP_PROGRESS_FILE"
        sleep 0.1
        [ ! -e enough ] || exit 0
        step=$((step + 1))
    done
    [ "$RANK" != 3 ] || exit 9
    exec sleep 300'
for name in a b; do
    background $name "$DDPRUN" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" --report=report-$name \
        --events=events-$name sh -c "$train"
    wait_listener "$port"
    wait_for '"waiting"\|"sealed"' events-$name 30
done
# tells_again: what is done twice is known.
tells_again()
{
    curl -s "http://127.0.0.1:$port/status" | grep -q '"repeated_steps":[1-9]'
}
eventually 30 tells_again || fail 'the steps that are done again are not told'
curl -s "http://127.0.0.1:$port/metrics" >metrics
ctl 0 "127.0.0.1:$port" top --once
: >enough
all_end 0 a b
has '^ddprun_run_goodput_ratio{run="none"} 0\.[0-9]*$' metrics
has '^ddprun_run_seconds{run="none",part="ran"} [0-9.]*$' metrics
has '^ddprun_run_step{run="none"} [0-9]*$' metrics
# Before it stands a bar, if the numbers leave room for one.
has '^  \(\[[^]]*\] \)\?goodput [0-9.]* % of .*; waiting ' ctl.out
has '^  [0-9]* steps* done twice' ctl.out
has "run 'none': 1 restart, 2 rounds here; .*, goodput [0-9]* %, lost to" a.err
for name in a b; do
    python3 "$E2E_LIB/goodput_of_events.py" --no-loss report-$name events-a \
        events-b >sums || fail "$(cat sums)"
done
python3 - <<'PY' || fail 'the steps that were done twice are not told'
import json
g = json.load(open("report-a"))["goodput"]
assert 1 <= g["repeated_steps"] <= 15 and g["repeated_s"] <= g["restart_s"], g
PY
