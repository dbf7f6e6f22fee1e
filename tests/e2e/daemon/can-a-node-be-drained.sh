#!/bin/sh
# limit: 60
# ddpctl drain of one of two nodes that train: do both leave at one step and the
# other one go on from it, without a charge? Is the node that serves the
# rendezvous, and one that the run cannot do without, drained with --force only?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

# agent N: the id of the launcher with that group rank; both are on one host.
agent()
{
    ctl 0 "127.0.0.1:$port" top --once
    awk -v rank="$1" '$1 == rank { print $3 }' ctl.out
}

port=$(free_port)
train_on "$port" 1:2 0 snap a
wait_round 1 2
train_on "$port" 1:2 0 snap b
wait_round 2 4
said '^epoch 2/8'
ctl 2 "127.0.0.1:$port" drain "$(uname -n)"
has "'.*' matches 2 nodes" ctl.out
ctl 2 "127.0.0.1:$port" drain nobody
has "there is no node 'nobody'" ctl.out
ctl 2 "127.0.0.1:$port" drain "$(agent 0)"
has 'runs this rendezvous.*--force' ctl.out
began=$(now_ms)
ctl 0 "127.0.0.1:$port" drain "$(agent 1)"
has '^node .* leaves run .none.: its workers are asked to stop at a step; 1' \
    ctl.out
ends_with 80 b
has 'drained by ddpctl from 127.0.0.1' b.err
wait_round 3 2
measured "one of two nodes drained, the other one's workers run again:" \
    "$(took_to 3) ms, without the loss of a step"
same '0 ' "$(values restarts 3)" restarts
left=$(cat ./*.out | sed -n 's/^asked to stop (scale-down): saved at step //p')
[ -n "$left" ] || fail 'nobody left at a step'
eventually 30 has_said "^resuming from epoch [0-9]*, step $left (" ||
    fail "step $left was left, and nobody resumed from it"
! grep -q 'rank .*: \(signal\|exit code\)' ./*.err ||
    fail 'a worker that was asked to stop counts as failed'
ends_with 0 a 30
has 'parameters identical on all 2 ranks' a.out
nothing_left

# Two of at least two: it would stop.
: >started
port=$(free_port)
daemon d "$port"
nodes "e f" --nnodes=2:3 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=last_call_timeout=0 "$WORKER" gate
wait_round 1 2
ctl 2 "127.0.0.1:$port" drain "$(agent 1)"
has "1 nodes* would be left, and run 'none' needs 2.*--force" ctl.out
lines 2 '^round=' started
ctl 0 "127.0.0.1:$port" drain --force "$(agent 1)"
has '1 node is left, at least 2 needed: the run waits 600 s for another' ctl.out
is_left()
{
    none_marked e || none_marked f
}
eventually 30 is_left || fail 'no node is drained'
[ -n "$(marked e)" ] && here=e gone=f || here=f gone=e
ends_with 80 $gone
wait_for '1 of 2 nodes joined' $here.err
node g --nnodes=2:3 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=last_call_timeout=0 "$WORKER" gate
wait_round 2 2
open_gate
all_end 0 $here g
