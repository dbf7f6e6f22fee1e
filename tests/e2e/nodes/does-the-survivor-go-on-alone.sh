#!/bin/sh
# A node is killed (guard, agent, both): does the other one go on alone where
# --nnodes=1:2 lets it, and is no restart charged?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

for what in guard agent both; do
    : >started
    port=$(free_port)
    node a --nnodes=1:2 --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
        "$WORKER" gate
    wait_listener "$port"
    node b --nnodes=1:2 --nproc_per_node=2 --rdzv_endpoint="127.0.0.1:$port" \
        "$WORKER" gate
    wait_round 1 4
    agent=$(agent_of b)
    began=$(now_ms)
    case $what in
    guard) kill -KILL "$(pid_of b)" ;;
    agent) kill -KILL "$agent" ;;
    both) kill -KILL "$(pid_of b)" "$agent" ;;
    esac
    wait_round 2 2
    measured "$what of a node killed, the survivor's workers run again:" \
        "$(took_to 2) ms"
    same '2 ' "$(values world 2)" 'world size'
    same '01' "$(ranks_on a 2)" 'ranks'
    same '0 ' "$(values restarts 2)" 'restarts'
    ends_with 137 b
    nothing_left b
    open_gate
    ends_with 0 a
    close_gate
done
