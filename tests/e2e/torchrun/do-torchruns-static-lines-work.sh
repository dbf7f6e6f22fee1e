#!/bin/sh
# torchrun --nnodes=2 --node_rank=R --master_addr=host --master_port=29500
# on two machines, the second one first: does it work, with that MASTER_ADDR?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other
node_on other other --nnodes=2 --nproc_per_node=2 --node_rank=1 \
    --master_addr=10.77.0.1 --master_port=29500 "$WORKER" gate
node_on host host --nnodes=2 --nproc_per_node=2 --node_rank=0 \
    --master_addr=10.77.0.1 --master_port=29500 "$WORKER" gate
wait_round 1 4 30
same 01 "$(ranks_on host 1)" 'ranks of node 0'
same 23 "$(ranks_on other 1)" 'ranks of node 1'
case $(values master 1) in
10.77.0.1:*\ ) ;;
*) fail "MASTER_ADDR and MASTER_PORT are $(values master 1)" ;;
esac
open_gate
all_end 0 host other
# The port is taken: an error at once, since no other node could be right.
if command -v python3 >/dev/null; then
    (in_machine host env "E2E_MARK=$E2E_DIR:squatter" python3 -c '
import socket
s = socket.create_server(("", 29500))
print("ready", flush=True)
held = []
while True:
    held.append(s.accept())') >squatter.out 2>&1 9<&- &
    wait_for ready squatter.out
    node_on host host --nnodes=2 --node_rank=0 --master_addr=10.77.0.1 \
        --master_port=29500 "$WORKER" gate
    ends_with 78 host 5
    has 'cannot listen on 10.77.0.1 port 29500' host.err
fi
