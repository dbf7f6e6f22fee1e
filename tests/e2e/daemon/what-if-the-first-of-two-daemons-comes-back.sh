#!/bin/sh
# Two daemons on two hosts, and an address that moves from the first one to the
# second, under which another round begins, and back. Is nobody restarted for that,
# and is the next failure handled? Whether the second daemon serves meanwhile or one of
# the nodes hangs on who of them is reached first.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

move() # FROM TO
{
    ip -n "dpe$$-$1" address del 10.77.0.100/32 dev eth0
    ip -n "dpe$$-$2" address add 10.77.0.100/32 dev eth0
    for _machine in a b; do
        ip -n "dpe$$-$_machine" neigh flush dev eth0
    done
}

network one two a b
echo '10.77.0.100 service' >>hosts
ip -n "dpe$$-one" address add 10.77.0.100/32 dev eth0
daemon_on one one 29400
daemon_on two two 29400
nodes_on "a b" --nnodes=1:2 --nproc_per_node=2 --max_restarts=2 \
    --rdzv_endpoint=service:29400 \
    --rdzv_conf=heartbeat_timeout=2,join_timeout=2,last_call_timeout=1 \
    "$WORKER" gate
wait_round 1 4
move one two
wait_for 'connected to the rendezvous again' a.err
wait_for 'connected to the rendezvous again' b.err
kill -KILL "$(worker_of 1 1)"
wait_lines 4 '^round=2 .* restarts=1 ' started
move two one
sleep 2.5 # longer than a lease
lines 8 '^round=' started
kill -KILL "$(worker_of 1 2)"
wait_lines 12 '^round=' started
lines 4 '^round=[3-9] .* restarts=2 ' started
same "$(values instance 1)" "$(values instance '[3-9]')" instance
open_gate
all_end 0 a b
