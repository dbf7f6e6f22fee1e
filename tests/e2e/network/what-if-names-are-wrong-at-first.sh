#!/bin/sh
# One machine does not know the endpoint's name, another one believes that it
# is an address where nobody is: do both say so while they wait, and come in
# when the names are put right?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

network host blind fooled
no_name_server
names host '10.77.0.1 host'
names blind
names fooled '10.77.0.99 host'
nodes_on "host blind fooled" --nnodes=3 --rdzv_endpoint=host:29500 "$WORKER" gate
wait_for "the name 'host' does not resolve here" blind.err 30
wait_for 'at host port 29500: no .* that the name resolves to it' fooled.err 30
lines 0 '^round=' started
began=$(now_ms)
names blind '10.77.0.1 host'
names fooled '10.77.0.1 host'
wait_round 1 3 30
measured "names put right: all run after $(took_to 1) ms"
open_gate
for machine in host blind fooled; do ends_with 0 $machine; done
nothing_left
