#!/bin/sh
# The cable between two machines of a job is cut, and one of them is asked to
# stop: does its worker find out that the other one is silent, or does it wait for
# it for half of --shutdown_timeout?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/trainer.sh"

network host other
for machine in host other; do
    # shellcheck disable=SC2086 # words
    node_on $machine $machine --nnodes=2 --nproc_per_node=1 \
        --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=60 \
        --node_rank=$([ $machine = host ] && echo 0 || echo 1) \
        --shutdown_timeout=60 --rdzv_backend=c10d ./train 1000 1 $MODEL \
        --snapshot_path="$E2E_DIR/snap"
done
wait_round 1 2
said '^epoch 2/'
worker=$(workers_on other 1)
cut_off other
began=$(now_ms)
kill -TERM "$worker"
eventually 30 is_gone "$worker" || fail 'the worker waits'
took=$(took)
measured "SIGTERM behind a cut cable: the worker ended after $took ms"
# Three seconds, which the kernels count. Without hurry it takes eight to ten.
in_time 6000 "$took" 'the end of the worker'
grep -q 'is silent: its host is down or the network is cut' other.err ||
    fail "it does not say why: $(tail -n 3 other.err)"
kill -INT "$(pid_of host)" # before it hears of that failure
heal other
ends_with 130 host
nothing_left
