#!/bin/sh
# A daemon stays away twice, and the second time the process that serves in its
# place is killed: does a launcher serve each time, and does each daemon that
# comes back get its port, with no worker disturbed?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
for name in a b; do
    node $name --nnodes=2 --max_restarts=1 --rdzv_endpoint="127.0.0.1:$port" \
        "$WORKER" gate
done
wait_round 1 2
sleep 2.5 # two beats: this job cannot shrink, so its leases are long ones

# stood_in TIMES: whether launchers have said so often that they serve.
stood_in()
{
    [ "$(cat a.err b.err | grep -c 'this launcher serves its own run')" -ge "$1" ]
}

# stand_in_pid: the process below a launcher that has the port.
stand_in_pid()
{
    _inode=$(awk -v at="$(printf ':%04X' "$port")" \
        '$4 == "0A" && substr($2, 9) == at { print $10 }' /proc/net/tcp)
    for _pid in $(cat /proc/"$(agent_of a)"/task/*/children \
        /proc/"$(agent_of b)"/task/*/children); do
        ! find "/proc/$_pid/fd" -lname "socket:\[${_inode:-none}\]" 2>/dev/null |
            grep -q . || echo "$_pid"
    done
}

# lose_daemon TIMES: it is killed, and a launcher serves in its place.
lose_daemon()
{
    kill -KILL "$(pid_of d)"
    ends_with 137 d
    eventually 30 stood_in "$1" || fail 'no launcher serves'
    for name in a b; do
        wait_lines "$connected" 'connected to the rendezvous again' $name.err
    done
}

# daemon_returns: it has the port, and the nodes come to it.
daemon_returns()
{
    daemon d "$port"
    has "a launcher that served port $port in the place of the daemon gave it back" \
        d.err
    for name in a b; do
        wait_lines "$connected" 'connected to the rendezvous again' $name.err
    done
    ctl 0 "127.0.0.1:$port" top --once
    has '^  none ' ctl.out
    has_not 'in the place of the daemon' ctl.out
}

connected=1
lose_daemon 1
connected=2
daemon_returns
sleep 2.5 # two beats, for long leases by the new one
connected=3
lose_daemon 2

server=$(stand_in_pid)
kill -KILL "$server" || fail "the server is '$server'"
connected=4
for name in a b; do
    wait_lines $connected 'connected to the rendezvous again' $name.err
done
same 1 "$(cat a.err b.err |
    grep -c 'rendezvous server of this launcher was killed by signal 9')" \
    'servers that were killed'
ctl 0 "127.0.0.1:$port" top --once
has "in the place of the daemon, for run 'none' only" ctl.out
connected=5
daemon_returns

same 2 "$(wc -l <started)" 'workers so far'
open_gate
ends_with 0 a
ends_with 0 b
kill -TERM "$(pid_of d)"
ends_with 0 d
nothing_left
