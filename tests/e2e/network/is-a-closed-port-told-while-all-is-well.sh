#!/bin/sh
# Firewalls let launchers reach the endpoint, and no other port of the other
# machines. Does each launcher say at the start, while all is well, which of them
# it could not go to if the endpoint's host were lost, once and not each round; and
# nothing where all is open?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
network a b c
start()
{
    nodes_on "a b c" --rdzv_id="$1" --nnodes=2:3 --max_restarts=1 \
        --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2,last_call_timeout=1 "$WORKER" "$2" \
        1 7
}

start open gate
wait_round 1 3
sleep 4 # the longest that an answer is waited for, and more
for name in a b c; do has_not 'does not reach' $name.err; done
open_gate
for name in a b c; do ends_with 0 $name; done
close_gate

for machine in b c; do open_only $machine 29500; done
: >started
start closed once
wait_round 2 3
for name in a b c; do wait_for 'does not reach' $name.err; done
has '10\.77\.0\.2:[0-9]* (no answer)' a.err
has '10\.77\.0\.3:[0-9]* (no answer)' a.err
has '10\.77\.0\.3:[0-9]* (no answer)' b.err
has '10\.77\.0\.2:[0-9]* (no answer)' c.err
sleep 4
for name in a b c; do lines 1 'does not reach' $name.err; done
open_gate
for name in a b c; do ends_with 0 $name; done
nothing_left
