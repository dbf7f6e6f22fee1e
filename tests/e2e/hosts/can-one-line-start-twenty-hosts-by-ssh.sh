#!/bin/sh
# OpenSSH's own sshd on each of twenty machines: how soon does one line start the
# job on all of them? Is a host that is not there named, and does the job do without
# it? Is nothing left on any machine after kill -9 of the front end?
# limit: 120
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/hosts.sh"

need_sshd
names=$(seq -s ' ' -f 'n%g' 20)
# shellcheck disable=SC2086 # words
network d $names
# shellcheck disable=SC2086 # words
start_sshd $names
hosts=$(echo "$names" | tr ' ' ,)

began=$(now_ms)
node_on d front --launch_with="$ssh" --hosts="$hosts" "$WORKER" gate
wait_round 1 20 60
measured "twenty hosts by ssh: all workers run after $(took) ms"
open_gate
ends_with 0 front 40
lines 20 'world=20 ' started
same 20 "$(sed -n 's/.* node=\([^ ]*\) .*/\1/p' started | sort -u | wc -l)" machines

# d is a machine without sshd.
: >started
close_gate
node_on d front --launch_with="$ssh" --hosts="$hosts,d" --nnodes=20:21 \
    --rdzv_conf=last_call_timeout=2 "$WORKER" hold
wait_round 1 20 60
has 'cannot start on d: ssh ended with status 255' front.err
began=$(now_ms)
kill -KILL "$(pid_of front)"
for machine in $names; do nothing_left "$machine" 30; done
measured "kill -9 of the front end: nothing left on twenty hosts after $(took) ms"
