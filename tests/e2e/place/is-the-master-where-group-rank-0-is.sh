#!/bin/sh
# Is MASTER_ADDR the address of group rank 0, also where the rendezvous is on
# another machine and where --local_addr says it?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other
command -v python3 >/dev/null || skip 'needs python3'
ip -n "dpe$$-other" address add 10.77.0.99/24 dev eth0
# shellcheck disable=SC2016 # for the worker
ask='exec python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "$RANK"'
node_on host host --nnodes=2 --nproc_per_node=2 --node_rank=1 \
    --rdzv_backend=c10d --rdzv_endpoint=host:29500 "$WORKER" become sh -c "$ask"
node_on other other --nnodes=2 --nproc_per_node=2 --node_rank=0 \
    --rdzv_backend=c10d --rdzv_endpoint=host:29500 "$WORKER" become sh -c "$ask"
all_end 0 host other
lines 2 'store ok' host.out
case $(values master 1) in
10.77.0.2:*\ ) ;;
*) fail "the master is $(values master 1)" ;;
esac
: >started
node_on host host --nnodes=2 --node_rank=1 --rdzv_backend=c10d \
    --rdzv_endpoint=host:29500 "$WORKER" become sh -c "$ask"
node_on other other --nnodes=2 --node_rank=0 --local_addr=10.77.0.99 \
    --rdzv_backend=c10d --rdzv_endpoint=host:29500 "$WORKER" become sh -c "$ask"
all_end 0 host other
case $(values master 1) in
10.77.0.99:*\ ) ;;
*) fail "the master is $(values master 1)" ;;
esac
