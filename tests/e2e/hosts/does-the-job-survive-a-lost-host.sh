#!/bin/sh
# A host dies under a job that one line started: do the others go on, and does the
# front end say which connection it lost, and end with the job's status? Does it
# end, too, if a connection is silent for ever, and leaves no trace?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

network a b c
make_into
front --hosts=a,b,c --nnodes=2:3 "$WORKER" gate
wait_round 1 3 30
# shellcheck disable=SC2046 # pids
kill -KILL $(ip netns pids dpe$$-c)
wait_round 2 2 30
lines 2 '^round=2 .*world=2 ' started
open_gate
ends_with 0 front 30
has 'the connection to c is lost (into ended with status 137)' front.err
nothing_left

: >started
close_gate
front --hosts=a,b,c "$WORKER" gate
wait_round 1 3 30
for pid in $(ip netns pids dpe$$-c); do
    ! tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q front_end_proxy || proxy=$pid
done
kill -STOP "${proxy:?there is no proxy on c}"
open_gate
ends_with 0 front 40
has 'c does not answer any more: giving it up' front.err
nothing_left
