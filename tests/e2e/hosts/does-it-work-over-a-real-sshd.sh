#!/bin/sh
# OpenSSH's own sshd on each machine: does one line start the job on all of them by
# ssh? Is nothing left after kill -9 of the front end, and after its cable was cut?
# Is a host without sshd named?
# limit: 150
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

PATH=$PATH:/usr/sbin
for tool in sshd ssh ssh-keygen; do
    command -v $tool >/dev/null || skip "needs $tool: scripts/setup.sh --check installs it"
done
need_root 'for sshd, which gives up its privileges'
network a b c d
ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -q -t ed25519 -N '' -f host_key ||
    fail 'no keys'
for machine in a b c; do
    cat >sshd.$machine <<CONFIG
ListenAddress 0.0.0.0
HostKey $E2E_DIR/host_key
AuthorizedKeysFile $E2E_DIR/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv E2E_MARK=$E2E_DIR:$machine E2E_DIR=$E2E_DIR E2E_LIB=$E2E_LIB
CONFIG
    (in_machine $machine env "E2E_MARK=$E2E_DIR:sshd" sh -c '
        mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd &&
            exec /usr/sbin/sshd -D -e -f "$E2E_DIR/sshd.$1"' \
        sh $machine) >sshd.$machine.out 2>sshd.$machine.err 9<&- &
    wait_for 'Server listening' sshd.$machine.err
done
ssh="ssh -F none -i $E2E_DIR/key -oUserKnownHostsFile=$E2E_DIR/known \
-oStrictHostKeyChecking=accept-new -oLogLevel=ERROR"

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
wait_round 1 3 20
: >terms
kill -INT "$(pid_of front)"
ends_with 130 front

from d --hosts=a,b,d --launch_timeout=5 "$WORKER" hold
ends_with 69 front 20
has 'cannot start on d: ssh ended with status 255' front.err
for machine in a b c; do nothing_left $machine; done

: >started
from d --hosts=a,b,c "$WORKER" hold
wait_round 1 3 20
began=$(now_ms)
kill -KILL "$(pid_of front)"
for machine in a b c; do nothing_left $machine 10; done
measured "kill -9 of the front end: nothing left after $(took) ms"

: >started
from d --hosts=a,b,c "$WORKER" hold
wait_round 1 3 20
began=$(now_ms)
cut_off d
for machine in a b c; do nothing_left $machine 40; done
measured "the front end's cable cut: nothing left after $(took) ms"
end_of front 40
has 'the connection to b is lost (ssh ended with status 255)' front.err
