#!/bin/sh
# A job hangs before there is anything to compare its silence with: ranks wait for one
# that does not come to the first collective. Is that told after two minutes, with the
# one that is the cause, on both nodes? Does auto tell the same and restart nothing? And is
# nothing said of workers that only wait, as servers do, and of a node that works
# while the others wait for it?
# limit: 300
# long: such a hang is told after two minutes
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/away" ] || skip 'needs away: make e2e-programs'
command -v gdb >/dev/null || skip 'needs gdb'
two=$(free_port) busy=$(free_port) asks=$(free_port)
for node in a b; do
    background "asks_$node" "$DDPRUN" --nnodes=2 --hang_timeout=auto --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$asks" "$E2E_BIN/away" 1 read
    background "two_$node" "$DDPRUN" --nnodes=2 --nproc_per_node=2 \
        --rdzv_endpoint="127.0.0.1:$two" "$E2E_BIN/away" 2 read
    background "busy_$node" "$DDPRUN" --nnodes=2 \
        --rdzv_endpoint="127.0.0.1:$busy" "$E2E_BIN/away" 1 compute
done
background auto "$DDPRUN" --hang_timeout=auto --max_restarts=1 --nproc_per_node=3 \
    "$E2E_BIN/away" 1 read
background server "$DDPRUN" --nproc_per_node=2 sleep 1000

told='the workers stand still: rank [12] stands in [A-Za-z_]*read, in no collective; ranks'
told="$told .*wait in ddp_comm_barrier; no progress for [12][0-9][0-9] s"
for name in two_a two_b auto; do
    wait_lines 1 "$told" "$name.err" 240 # beside others a debugger takes its time
    has_not 'the workers go on\|round 2' "$name.err"
done
# Also that node which has none of the causes.
told='the workers stand still: rank 1 stands in [A-Za-z_]*read, in no collective; rank 0 waits'
for name in asks_a asks_b; do
    wait_lines 1 "$told in ddp_comm_barrier" "$name.err" 60
    has_not 'the workers go on\|round 2' "$name.err"
done
has 'Nothing is ended$' asks_b.err
has 'Nothing is ended (--hang_timeout=tell)' two_a.err
has 'Nothing is ended$' auto.err
sleep 5
for name in busy_a busy_b server; do
    has_not 'stand still' "$name.err"
done
for name in two_a asks_a busy_a auto server; do
    kill -INT "$(pid_of "$name")"
    ends_with 130 "$name" 40
done
nothing_left
