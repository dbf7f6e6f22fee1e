#!/bin/sh
# Are there at most --max_restarts restarts in all, and then the worker's own
# status and a report?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

launch 42 --nproc_per_node=2 --max_restarts=3 "$WORKER" always 1 42
lines 8 '^round=' started
for attempt in 0 1 2 3; do
    lines 2 "^round=$((attempt + 1)) .* restarts=$attempt " started
done
has 'restarts used *3 of 3' it.err
# A line for each failure, not two, and one for each new round.
lines 4 'rank 1 (pid [0-9]*): exit code 42; stopping the others$' it.err
has_not 'is over' it.err
has 'round 3: ranks 0 to 1 of 2, node 0 of 1; restarts used 2 of 3$' it.err
has 'exit code 42' it.err
nothing_left

: >started
launch 5 --nproc_per_node=2 "$WORKER" always 0 5
lines 2 '^round=1 ' started
