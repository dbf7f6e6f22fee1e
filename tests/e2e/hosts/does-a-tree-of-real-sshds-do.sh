#!/bin/sh
# OpenSSH's own sshd on five machines, of which some are reached through others: do
# all start the job? If the process between dies, or the cable of its machine is
# cut, do the launchers behind it run on, and are they heard? Is nothing left?
# limit: 150
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

need_sshd
network a b c d e f
start_sshd a b c d e

# Branches of a, b; c, d; e. The hosts have keys for each other.
tree()
{
    node_on f front --launch_with="$ssh -oServerAliveInterval=1" \
        --hosts=a,b,c,d,e --launch_fanout=4 "$@"
}

began=$(now_ms)
tree --launch_timeout=90 "$WORKER" gate
wait_round 1 5 30
measured "five hosts by ssh, two through others: all workers run after $(took) ms"
open_gate
ends_with 0 front 30
lines 5 'world=5 ' started
has_not 'from here' front.err
for machine in a b c d e; do nothing_left $machine; done

: >started
close_gate
tree --nnodes=4:5 --launch_timeout=60 "$WORKER" gate
wait_round 1 5 30
cut_off c
wait_round 2 4 40
# The end of d is told once to nobody, and again when there is a connection.
open_gate
ends_with 0 front 60
has 'the connection through c is lost: connecting to its hosts' front.err
lines 4 '^round=2 .*world=4 ' started
has_not 'to d is lost' front.err
has_not 'round=3' started
for machine in a b d e; do nothing_left $machine; done
nothing_left c 60
