#!/bin/sh
# A node is refused, since it was started with other options. Are those that
# wait for it told at once which one and why, on the console, in the log of
# events, and in the verdict when they give up? And not any more once it came?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
at=127.0.0.1:$port
node a --nnodes=2 --rdzv_endpoint="$at" --rdzv_conf=join_timeout=10 \
    --events=events.a "$WORKER" hold
wait_listener "$port"
launch 65 --nnodes=3 --rdzv_endpoint="$at" "$WORKER" hold
has "refused this node: this node was started with --nnodes=3, run 'none' has 2" \
    it.err
why="node $(uname -n) was refused: it was started with --nnodes=3, run 'none' has 2; start all nodes with the same options"
wait_for "^ddprun: $why" a.err
wait_for "\"event\":\"waiting\".*$why" events.a
ends_with 75 a
has "run 'none': too few nodes joined in 10 s (1 of 2): [^;]*; $why" a.err
nothing_left

# It comes with the right options: the round begins, and nothing more is said.
node a --nnodes=2 --rdzv_endpoint="$at" "$WORKER" gate
wait_listener "$port"
launch 65 --nnodes=2 --max_restarts=7 --rdzv_endpoint="$at" "$WORKER" gate
wait_for 'was refused: it was started with --max_restarts=7' a.err
node b --nnodes=2 --rdzv_endpoint="$at" "$WORKER" gate
wait_round 1 2
open_gate
all_end 0 a b
lines 1 'was refused' a.err
has_not 'was refused' b.err
nothing_left
