#!/bin/sh
# A daemon comes back, and two of three nodes are frozen, so that too few voters are
# there for a leader. An operator types ddpctl go-on: is it told what that risks and
# asked? Does nothing follow from a no, and does the node go on after a yes, once
# the leases of the others are over?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/terminal.sh"

port=$(free_port)
daemon d "$port"
nodes "a b c" --rdzv_id=job --nnodes=1:3 --rdzv_endpoint="127.0.0.1:$port" \
    --scale_interval=0 --rdzv_conf=heartbeat_timeout=2,reconnect_timeout=40 \
    "$WORKER" gate
wait_world 3
freeze b
freeze c
kill -KILL "$(pid_of d)"
end_of d
daemon d "$port"
wait_for 'see go-on in ddpctl(1)' a.err 30

terminal op
enter op "$DDPCTL --endpoint=127.0.0.1:$port go-on job; echo status \$?"
wait_screen op '2 of the 3 voters of run .job. are missing'
wait_screen op 'Go on without them? .y/N.'
enter op n
wait_screen op 'nothing was changed'
wait_screen op '^status 79'
has_not 'ordered: go-on' d.err

enter op "$DDPCTL --endpoint=127.0.0.1:$port go-on job; echo status \$?"
wait_screen op 'Go on without them? .y/N.' 2
enter op y
wait_screen op "run 'job' goes on with 1 of its 3 voters"
wait_screen op '^status 0'
has 'ordered: go-on with 1 of 3 voters' d.err
wait_world 1 1 30
thaw b
thaw c
open_gate
ends_with 0 a
for name in b c; do end_of $name 30; done
for name in a b c; do nothing_left $name; done
