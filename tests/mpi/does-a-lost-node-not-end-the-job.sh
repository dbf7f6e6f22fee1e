#!/bin/sh
# limit: 60
# Guard and agent of a node are killed while its ranks send around, or
# its cable is cut: does a spare take its place, or does the job go on with the
# nodes that are left, and has the next round the right numbers?
. "${MPI_TESTS:?is set by tests/mpi/run}/lib/mpi.sh"
. "$E2E_LIB/faults.sh"
[ $over_nodes = 1 ] || skip 'MPICH 4.0 is not tried over nodes'
network na nb nc

program="$BASICS loop" options=
start 2 2 2
wait_for '^around: 6$' na.out 30
begin nc 2 2
wait_for 'waits as a spare' nc.err 30
kill_both nb
ends_with 0 na 30
ends_with 0 nc 30
end_of nb
right '[2-9][0-9]*' 4 na.out
nothing_left

options=--rdzv_conf=heartbeat_timeout=2,last_call_timeout=30
start 2:3 2 2 2
wait_for '^around: 15$' na.out 30
cut_off nc
ends_with 0 na 30
ends_with 0 nb 30
right '[2-9][0-9]*' 4 na.out
nothing_left na
kill "$(pid_of nc)"
end_of nc 30
nothing_left
