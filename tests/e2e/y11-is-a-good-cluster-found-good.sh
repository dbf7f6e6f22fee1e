#!/bin/sh
# Three nodes that reach each other, one of which runs the real job already at
# the same endpoint's daemon: does a preflight end with 0 everywhere, print one
# table that names all, and leave the job alone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network na nb nc
for machine in na nb nc; do
    node_on $machine $machine --nnodes=3 --nproc_per_node=4 --rdzv_id=job \
        --rdzv_endpoint=na:29500 --max_restarts=3 --preflight
done
for machine in na nb nc; do
    ends_with 0 $machine 20
done
cat na.out nb.out nc.out >all.out
lines 1 '^preflight of run .job.: 3 nodes, 6 links' all.out
lines 1 'all is well, go ahead' all.out
for number in 1 2 3; do
    has " 10.77.0.$number  *eth0  *1500 " all.out
done
for name in na nb nc; do
    # A row in each of three tables: of nodes, round trips, bandwidths.
    lines 3 "^  [0-2]  $name  " all.out
done
lines 3 ' [0-9.]*us\b' all.out
has_not PROBLEM all.out
has_not ' no\b' all.out
same 0 "$(awk 'length > 80' all.out | wc -l)" 'lines of more than 80 columns'
cat na.err nb.err nc.err >all.err
lines 2 'all is well; the table is what n. prints' all.err
has_not 'failed' all.err
same 0 "$(wc -l <started)" workers
nothing_left
