#!/bin/sh
# Workers beat for some seconds; then one stays away, and the others wait for it. Does
# the launcher say so, once, without an option, name that one, on whichever node it is,
# and say when they go on? With auto, does it start them again, also for a rank of a node
# that has nothing to compare with? And is nothing said of those that are all stopped for
# a while, or wait for one that computes?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >steps <<'STEPS'
#!/usr/bin/python3
# steps RANK HOW FILE: that rank does HOW, until there is such a file.
import os, signal, sys, time

rank, away, how, file = int(os.environ["RANK"]), int(sys.argv[1]), sys.argv[2], sys.argv[3]

def beat(step):
    if how != "quiet" or rank != away:
        with open(os.environ["DDP_PROGRESS_FILE"], "w") as f:
            f.write(f"{step}\n")
    time.sleep(0.2)

with open(f"{file}.pid{rank}", "w") as f:
    f.write(f"{os.getpid()}\n")
for step in range(65):
    beat(step)
if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
    sys.exit(0)
open(f"{file}.waits{rank}", "w").close()
if rank == away and how in ("stop", "quiet"):
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists(file):
    if rank != away or how != "compute":
        time.sleep(0.05)
for step in range(65, 85):
    beat(step)
STEPS
chmod +x steps
# begin NAME RANK HOW [OPTION...]
begin()
{
    _name=$1 _rank=$2 _how=$3
    shift 3
    background "$_name" env PATH=/nowhere "$DDPRUN" "$@" "$PWD/steps" "$_rank" "$_how" \
        "$PWD/go_${_name%_*}"
}
cat >follow.py <<'PY'
# Prints what each document of /events says of ranks that stand still.
import http.client, json, sys

link = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=100)
link.request("GET", "/events")
for line in link.getresponse():
    if line.startswith(b"data: "):
        for run in json.loads(line[6:])["runs"]:
            print("event:", run.get("stands", {}).get("text", "none"), flush=True)
PY
top_shows()
{
    ctl 0 "127.0.0.1:$port" top --once
    grep -q "$1" ctl.out
}

port=$(free_port) two=$(free_port) busy=$(free_port) ends=$(free_port)
begin told 1 stop --nproc_per_node=2 --events=told.events --rdzv_endpoint="127.0.0.1:$port"
begin auto 1 stop --nproc_per_node=2 --hang_timeout=auto --max_restarts=1
begin off 1 stop --nproc_per_node=2 --hang_timeout=0
begin held 9 none --nproc_per_node=2
for node in a b; do
    begin "two_$node" 1 quiet --nnodes=2 --rdzv_endpoint="127.0.0.1:$two"
    begin "busy_$node" 1 compute --nnodes=2 --rdzv_endpoint="127.0.0.1:$busy"
    begin "ends_$node" 1 quiet --nnodes=2 --hang_timeout=auto --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$ends"
done

# All of them, for longer than what would be told of one.
for rank in 0 1; do
    eventually 40 test -e go_held.waits$rank || fail "rank $rank does not come so far"
done
background follow python3 follow.py "$port"
wait_lines 1 '^event: none$' follow.out
for rank in 0 1; do kill -STOP "$(cat go_held.pid$rank)"; done
stopped='rank 1 is stopped (state T: SIGSTOP, or a debugger); rank 0 \(sleeps\|waits\)'
wait_lines 1 "the workers stand still: rank 1 is stopped (state T.*no progress for 1[0-9].*longest pause" told.err 40
eventually 10 top_shows "stands still, as .* tells for .*: rank 1 is stopped" ||
    fail "top does not show it: $(cat ctl.out)"
for node in a b; do
    wait_lines 1 "the workers stand still: $stopped" "two_$node.err" 40
done
has '"event":"stands".*rank 1 is stopped' told.events
wait_lines 1 '^event: rank 1 is stopped (state T' follow.out
for name in told two_a two_b; do
    has_not 'the workers go on' $name.err
done

: >go_held
for rank in 0 1; do kill -CONT "$(cat go_held.pid$rank)"; done
for name in told two off busy; do
    : >go_$name
    kill -CONT "$(cat go_$name.pid1)"
done
for name in told two_a two_b; do
    ends_with 0 "$name" 40
    lines 1 'the workers stand still' "$name.err"
    lines 1 'the workers go on' "$name.err"
done
has '"event":"goes_on"' told.events
same 'event: none' "$(tail -n 1 follow.out)" 'what the last event says'
for name in held off busy_a busy_b; do
    ends_with 0 "$name" 40
    has_not 'stand still' "$name.err"
done
for name in auto ends_a ends_b; do
    ends_with 0 $name 60
done
cat ends_a.err ends_b.err >ends.err
for name in auto ends; do
    lines 1 'rank 1 (pid [0-9]*): it is stopped (state T.*; no progress for ' $name.err
    has 'restarts used 1 of 1' $name.err
done
nothing_left
