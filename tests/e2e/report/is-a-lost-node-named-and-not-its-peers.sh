#!/bin/sh
# A node dies wholly, without a word; the workers of the other one end by 77,
# since they lost a peer, and no node comes in its place. Does the verdict name
# the node that was lost, how and when, and the 77 as a consequence?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

command -v python3 >/dev/null || skip 'needs python3'
network a b
# Rank 0 notices the loss of its peer when the file is there, rank 1 does not.
# shellcheck disable=SC2016 # for the worker
work='echo "$RANK $PPID" >>"$E2E_DIR/ranks"
    [ "$RANK" = 0 ] || exec sleep 300
    until [ -e "$E2E_DIR/broken" ]; do sleep 0.02; done
    exit 77'
# Else long leases are out if the cable is cut a second later, on a busy machine.
short=heartbeat_timeout=1,reconnect_timeout=1
for machine in a b; do
    node_on $machine $machine --nnodes=2 --nproc_per_node=2 --max_restarts=0 \
        --rdzv_endpoint=a:29500 --rdzv_conf=join_timeout=1,$short \
        --report=report-$machine sh -c "$work"
done
wait_lines 4 . ranks
# First its cable, so that nothing of its end is heard.
hour=$(date +%Y-%m-%dT%H)
ip -n "dpe$$-b" link set eth0 down
: >broken
sleep 0.1
kill_node b
ends_with 75 a 30
has "run 'none' failed" a.err
has 'node lost       b is silent: its lease is over$' a.err
has "when            \($hour\|$(date +%Y-%m-%dT%H)\):.*, in round 1$" a.err
has 'then            rank 0 on a (local rank 0, pid [0-9]*): exit code 77 (lost a peer)$' \
    a.err
has '^ddprun:                   rank 1 on a .*: stopped (SIGTERM)$' a.err
has 'why it ended    node b is silent.*; too few nodes joined in 1 s (1 of 2): a$' \
    a.err
has 'restarts used   0 of 0' a.err
has_not 'first failure' a.err
python3 - <<'PY' || fail 'the JSON is not right'
import json
r = json.load(open("report-a"))
assert r["first_failure"] is None and r["status"] == 75, r
lost = r["node_lost"]
assert (lost["node"], lost["round"]) == ("b", 1), lost
assert [(c["node"], c["rank"], c.get("exit_code"), c.get("signal_name"))
        for c in r["consequences"]] == [
    ("a", 0, 77, None), ("a", 1, None, "SIGTERM")], r
PY

# The same where the launcher is killed and the cable is not cut.
ip -n "dpe$$-b" link set eth0 up
rm -f broken ranks
nodes_on "a b" --nnodes=2 --max_restarts=3 \
    --rdzv_endpoint=a:29501 --rdzv_conf=join_timeout=1 \
    sh -c "$work"
wait_lines 2 . ranks
kill_both b
ends_with 75 a 30
has 'node lost       b is gone: its launcher ended$' a.err

# The same with libddp's own workers, of which one is killed while its agent is
# frozen and says nothing of it. On a busy machine it is so for longer than
# heartbeat_timeout, and then its lease is waited for: a short one here as well.
[ -x "$E2E_BIN/ddptrain" ] || exit 0
# shellcheck disable=SC2016 # for the worker
for machine in a b; do
    node_on $machine $machine --nnodes=2 --max_restarts=3 \
        --rdzv_endpoint=a:29502 \
        --rdzv_conf=join_timeout=1,$short \
        sh -c 'echo "$RANK $$$$" >>"$E2E_DIR/trainers"
            exec "$E2E_BIN/ddptrain" 100000 100000 --model=linear'
done
wait_lines 2 . trainers
wait_for '^epoch' a.out
kill -STOP "$(pid_of b)" "$(agent_of b)"
kill -KILL "$(sed -n 's/^1 //p' trainers)"
wait_for 'exit code 77; stopping' a.err
kill_node b
ends_with 75 a 30
has 'node lost       b is ' a.err
has 'then            rank 0 on a .*: exit code 77 (lost a peer)$' a.err
