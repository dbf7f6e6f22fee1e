#!/bin/sh
# Somebody resets the connection of a node, as each of the two ends sees it: is
# it made again with no worker the wiser?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
network host other
# reset_by HOOK MATCH: forged on the host, until the other one is back.
reset_by()
{
    before=$(grep -c 'connected to the rendezvous again' other.err)
    forge host "$@"
    wait_lines $((before + 1)) 'connected to the rendezvous again' other.err
}

nodes_on "host other" --nnodes=1:2 --max_restarts=1 \
    --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=1 \
    "$WORKER" gate
wait_round 1 2
# A beat that comes is answered so: the node sees a reset, the server nothing.
# It may come back at another port of the server's.
reset_by input 'ip saddr 10.77.0.2 tcp sport != 0'
# An answer that goes out is: the server sees a reset, the node nothing yet.
reset_by output 'ip daddr 10.77.0.2 tcp dport != 0'
sleep 1.2 # a lease
lines 2 '^round=' started
for machine in host other; do
    has_not 'are killed' $machine.err
done
# And what fails now is dealt with.
kill -KILL "$(workers_on other 1)"
wait_round 2 2
open_gate
all_end 0 host other
