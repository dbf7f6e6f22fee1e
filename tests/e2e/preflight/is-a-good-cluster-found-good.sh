#!/bin/sh
# Three nodes that reach each other, one of which runs a job of that name already
# and serves the endpoint for it: does a preflight end with 0 everywhere, print
# one table that names all, and leave the job alone?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network na nb nc
node_on na job --nproc_per_node=2 --rdzv_id=job --rdzv_endpoint=na:29500 \
    "$WORKER" gate
wait_round 1 2
preflight 0 --nproc_per_node=4 --rdzv_id=job --max_restarts=3
lines 1 '^preflight of run .job.: 3 nodes, 6 of 6 links good' all.out
lines 1 '^preflight: passed$' all.out
for number in 1 2 3; do
    has " 10.77.0.$number  *eth0  *1500$" all.out
done
for name in na nb nc; do
    lines 1 "^  [0-2]  $name  " all.out
done
has_not PROBLEM all.out
same 0 "$(awk 'length > 80' all.out | wc -l)" 'lines of more than 80 columns'
lines 2 'passed; n. prints the report' all.err
has_not 'failed' all.err
same 2 "$(wc -l <started)" workers # the job's
open_gate
ends_with 0 job
has_not 'round 2' job.err
nothing_left
