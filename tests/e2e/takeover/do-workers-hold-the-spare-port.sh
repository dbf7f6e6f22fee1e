#!/bin/sh
# A launcher listens on a spare port, in case it has to serve the rendezvous, also
# beside a daemon: does no worker have it, and is no server started for it? And
# does a launch that stands alone listen on none?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# listening PID: the ports on which this process listens.
listening()
{
    for _fd in "/proc/$1/fd"/*; do
        _inode=$(readlink "$_fd" | sed -n 's/^socket:\[\(.*\)\]$/\1/p')
        [ -n "$_inode" ] || continue
        awk -v inode="$_inode" '$4 == "0A" && $10 == inode { print $2 }' \
            /proc/net/tcp /proc/net/tcp6
    done | sort -u | wc -l
}

listens_on()
{
    [ "$(listening "$1")" -eq "$2" ]
}

port=$(free_port)
daemon d "$port"
node a --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_for 'waiting: ' a.err
eventually 30 listens_on "$(agent_of a)" 2 ||
    fail "$(listening "$(agent_of a)") ports, not the spare one and the store's"
node b --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 2
for name in a b; do
    listens_on "$(agent_of $name)" 2 ||
        fail "$name listens on $(listening "$(agent_of $name)") ports"
    for pid in $(workers_on $name 1); do
        same 0 "$(listening "$pid")" "ports of worker $pid"
    done
done
open_gate
for name in a b; do ends_with 0 $name; done
nothing_left a
nothing_left b
close_gate
node alone "$WORKER" gate
wait_lines 3 '^round=1' started
listens_on "$(agent_of alone)" 1 ||
    fail "alone listens on $(listening "$(agent_of alone)") ports"
open_gate
ends_with 0 alone
