#!/bin/sh
# OpenSSH's own sshd on each machine: does one line start the job on all of them by
# ssh? Is nothing left after kill -9 of the front end, and after its cable was cut?
# Is a host without sshd named?
# limit: 150
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

need_sshd
network a b c d
start_sshd a b c

# from MACHINE OPTION...: the front end there.
from()
{
    _from=$1
    shift
    node_on "$_from" front --launch_with="$ssh" "$@"
}

from d --hosts=a:2,root@b,c "$WORKER" exit 0
ends_with 0 front 30
lines 4 'world=4 ' started
lines 4 'master=10.77.0.1:' started
lines 1 'starting on 3 hosts with ssh$' front.err
on_machine 2 a
on_machine 1 b
from d --hosts=a,b,c "$WORKER" always 1 7
ends_with 7 front 30

: >started
from d --hosts=a,b,c "$WORKER" report
wait_round 1 3 30
: >terms
kill -INT "$(pid_of front)"
ends_with 130 front

from d --hosts=a,b,d --launch_timeout=5 "$WORKER" hold
ends_with 69 front 30
has 'cannot start on d: ssh ended with status 255' front.err
for machine in a b c; do nothing_left $machine; done

: >started
from d --hosts=a,b,c "$WORKER" hold
wait_round 1 3 30
began=$(now_ms)
kill -KILL "$(pid_of front)"
for machine in a b c; do nothing_left $machine 30; done
measured "kill -9 of the front end: nothing left after $(took) ms"

: >started
from d --hosts=a,b,c "$WORKER" hold
wait_round 1 3 30
began=$(now_ms)
cut_off d
for machine in a b c; do nothing_left $machine 40; done
measured "the front end's cable cut: nothing left after $(took) ms"
end_of front 40
has 'the connection to b is lost (ssh ended with status 255)' front.err
