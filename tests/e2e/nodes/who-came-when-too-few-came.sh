#!/bin/sh
# Too few nodes after join_timeout: does each that came say who came, how many
# are missing, and end with 75?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network east west
nodes_on "east west" --nnodes=3:4 --rdzv_endpoint=east:29500 \
    --rdzv_conf=join_timeout=2 "$WORKER" hold
for machine in east west; do
    ends_with 75 $machine
    has 'too few nodes joined in 2 s (2 of 3)' $machine.err
    has 'Run ddprun with the same command line on the missing nodes, or wait longer' \
        $machine.err
    has 'east' $machine.err
    has 'west' $machine.err
done
same 0 "$(wc -l <started)" workers
nothing_left

# Both say localhost, and each waits on its own machine: is the cause told? And
# nothing before the colon, where one node were enough: N worlds of one?
nodes_on "east west" --nnodes=2 --rdzv_endpoint=localhost:29500 \
    --rdzv_conf=join_timeout=4 "$WORKER" hold
for machine in east west; do
    ends_with 75 $machine
    has 'the endpoint is a loopback address, which no other machine can reach' $machine.err
done
node_on east east --nnodes=1:2 --rdzv_endpoint=:29500 true
ends_with 2 east
has 'the host before the colon is missing' east.err
nothing_left
