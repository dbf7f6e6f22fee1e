#!/bin/sh
# A node without its snapshot begins at step 0 beside one that goes on at 30, and
# a worker fails of it. Do both launchers say so in the report, and the one that
# is told of the failure before that; and neither if the nodes are a step apart?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# The workers of the second node tell their step once the server knows that
# of the first one.
# shellcheck disable=SC2016 # for the worker
work='[ "$GROUP_RANK" = 0 ] || until [ -e "first-$DDP_ROUND" ]; do sleep 0.02; done
    echo "$1" >"$DDP_PROGRESS_FILE"
    [ "$RANK" = 3 ] || exec sleep 300
    until [ -e "second-$DDP_ROUND" ]; do sleep 0.02; done
    exit 9'

# knows_step ROUND NODE STEP: whether the server knows that the node at this group
# rank is at this step of this round.
knows_step()
{
    "$DDPCTL" --endpoint="127.0.0.1:$port" status --json >status 2>/dev/null &&
        python3 - "$@" <<'PY'
import json, sys
number, group_rank, step = map(int, sys.argv[1:])
runs = json.load(open("status"))["runs"]
sys.exit(not any(
    run["round"] == number and node.get("group_rank") == group_rank and
    node.get("step") == step for run in runs for node in run["nodes_list"]))
PY
}

# play STEP STEP: of the nodes; two rounds.
play()
{
    rm -f first-* second-*
    port=$(free_port)
    background a "$DDPRUN" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --node_rank=0 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=1 sh -c "$work" worker "$1"
    background b "$DDPRUN" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --node_rank=1 --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=1 sh -c "$work" worker "$2"
    for round in 1 2; do
        eventually 30 knows_step $round 0 "$1" || fail "round $round: no $1"
        : >first-$round
        eventually 30 knows_step $round 1 "$2" || fail "round $round: no $2"
        : >second-$round
    done
    all_end 9 a b
}

command -v python3 >/dev/null || skip 'needs python3'
apart='ranks 0-1 on .* were at step 30 when ranks 2-3 on .* were at step 0: a node'
play 30 0
has "round 1 is over: rank 3 on .* ended with exit code 9; $apart" a.err
for node in a b; do
    has 'first failure   rank 3 on ' $node.err
    has "error           $apart" $node.err
done
play 30 29
for node in a b; do
    has 'first failure   rank 3 on ' $node.err
    has_not 'at step' $node.err
done
nothing_left
