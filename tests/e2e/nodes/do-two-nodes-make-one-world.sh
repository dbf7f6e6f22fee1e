#!/bin/sh
# Do two launchers with the same line make one world of eight, and do both end
# with 0?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
node a --nnodes=2 --nproc_per_node=4 --rdzv_endpoint="127.0.0.1:$port" \
    "$WORKER" gate
node b --nnodes 2 --nproc-per-node 4 --rdzv-endpoint "127.0.0.1:$port" \
    --rdzv-backend c10d "$WORKER" gate
wait_round 1 8
same '2 ' "$(values groups 1)" 'group world size'
same '8 ' "$(values world 1)" 'world size'
same 1 "$(values instance 1 | wc -w)" instances
same 1 "$(values master 1 | wc -w)" masters
case "$(ranks_on a 1) $(ranks_on b 1)" in
'0123 4567' | '4567 0123') ;;
*) fail "a has $(ranks_on a 1), b has $(ranks_on b 1)" ;;
esac
lines 4 '^round=1 rank=[0-3] world=8 group=0 groups=2 local=[0-3] ' started
lines 4 '^round=1 rank=[4-7] world=8 group=1 groups=2 local=[0-3] ' started
open_gate
all_end 0 a b
has_not 'failed' a.err
nothing_left
