#!/bin/sh
# With an external daemon and --nnodes=1:3: do the survivors go on, whichever
# nodes die, one after the other?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
nodes "a b c" --nnodes=1:3 --nproc_per_node=2 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 6
first=$(sed -n 's/^round=1 rank=0 .* node=\([^ ]*\) .*/\1/p' started)
kill -KILL "$(pid_of "$first")"
wait_round 2 4
last=$(sed -n 's/^round=2 rank=3 .* node=\([^ ]*\) .*/\1/p' started)
kill -KILL "$(agent_of "$last")"
wait_round 3 2
same '0 ' "$(values restarts 3)" restarts
open_gate
for name in a b c; do
    [ $name != "$first" ] && [ $name != "$last" ] || continue
    ends_with 0 $name
done
end_of "$first"
end_of "$last"
nothing_left a
nothing_left b
nothing_left c
