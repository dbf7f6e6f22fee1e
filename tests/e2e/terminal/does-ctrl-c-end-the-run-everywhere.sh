#!/bin/sh
# Does SIGINT to one launcher end the run on all nodes with 130, and nothing is
# left? Do two kill at once what does not want to go?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=5 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" family
wait_round 1 4
wait_lines 4 family families
began=$(now_ms)
kill -INT "$(pid_of b)"
all_end 130 b a
measured "SIGINT to one of two launchers, both have ended: $(took) ms"
nothing_left
has 'signal 2' a.err

: >started
node it --nproc_per_node=2 sh -c '
    trap "" INT TERM
    echo "round=1 " >>"$E2E_DIR/started"
    exec sleep 300'
wait_round 1 2
kill -INT "$(pid_of it)"
wait_for 'a second signal kills them' it.err
kill -INT "$(pid_of it)"
ends_with 130 it 8 # --shutdown_timeout is 30 s
nothing_left
