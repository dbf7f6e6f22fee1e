#!/bin/sh
# ddpctl end: do all launchers of that run end with 84 and say who ended it, do
# their workers have the grace, and does the run beside it go on?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=2 --nproc_per_node=2 --rdzv_id=one \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" report
wait_round 1 4
node c --nnodes=1:2 --rdzv_id=two --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=last_call_timeout=0 "$WORKER" gate
wait_round 1 5
ctl 2 "127.0.0.1:$port" end three
has "there is no run 'three' here" ctl.out
began=$(now_ms)
ctl 0 "127.0.0.1:$port" end one
has "^run 'one' ends: its 2 nodes are told to stop.*status 84$" ctl.out
all_end 84 a b
measured "a run of two nodes ended by ddpctl: $(took) ms"
for name in a b; do
    has "run 'one': ended by ddpctl from 127.0.0.1" $name.err
    nothing_left $name
done
lines 4 '^term ' terms
ctl 2 "127.0.0.1:$port" end one
has "run 'one' is over already, with status 84" ctl.out
ctl 0 "127.0.0.1:$port" top --once one
has 'ended .* ago with status 84: ended by ddpctl from 127.0.0.1' ctl.out
python3 -c 'import sys, urllib.request as u
text = u.urlopen("http://127.0.0.1:" + sys.argv[1] + "/metrics").read().decode()
assert "\nddprun_orders_total 1\n" in text, text' "$port" 2>metrics.err ||
    fail "the order is not counted: $(tail -n 3 metrics.err)"
# A run that only waits is ended as well, and its id can be used again.
node e --nnodes=2 --rdzv_id=one --rdzv_endpoint="127.0.0.1:$port" true
wait_lines 3 'run one .*: joined ' d.err
ctl 0 "127.0.0.1:$port" end one
ends_with 84 e
open_gate
ends_with 0 c
