#!/bin/sh
# A list of two endpoints: a daemon, and a node of the job; in either order. What
# is served at the first one goes on at the second one when the first is killed:
# does a daemon that dies cost nothing, and a node that dies one round? Then the
# second one dies, too: do the nodes that are left serve themselves? The node dies
# of a power cut, which costs its lease, or its agent does, which its guard tells.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

# start LIST
start()
{
    : >started
    : >begun
    daemon_on s daemon 29500
    nodes_on "a b c d" --rdzv_id="$1" --nnodes=2:4 --max_restarts=1 \
        --rdzv_endpoint="$1" --rdzv_conf=heartbeat_timeout=2 ./careful
    wait_world 4
}

# goes_on_after_daemon TIMES: when b has connected again so often. Nobody's worker is touched.
goes_on_after_daemon()
{
    kill_node daemon
    wait_lines "$1" 'connected to the rendezvous again' b.err
    sleep 3 # a lease, and more
    same "$ROUND" "$(newest_round)" 'round after the loss of the daemon'
    for pid in $(sed -n "s/^round=$ROUND .* pid=\([0-9]*\) .*/\1/p" started); do
        ! is_gone "$pid" || fail "worker $pid was killed with the daemon"
    done
    measured "$how: the daemon killed: no worker is"
}

# goes_on_after_node KILL LIMIT_MS WHAT: KILL is a verb of faults.sh.
goes_on_after_node()
{
    before=$ROUND
    "$1" a
    began=$(now_ms)
    wait_world 3 "$before"
    took=$(began_after "$ROUND")
    measured "$how: $1 a: the others run again after $took ms"
    in_time "$2" "$took" "the next round ($3)"
}

careful_worker
network s a b c d
for how in s:29500,a:29500 a:29500,s:29500; do
    start $how
    case $how in
    s:*)
        goes_on_after_daemon 1
        goes_on_after_node kill_node 3000 'heartbeat_timeout + 1 s'
        ;;
    a:*)
        goes_on_after_node kill_agent 1000 'without waiting for a lease'
        wait_lines 1 'connected to the rendezvous again' b.err
        goes_on_after_daemon 2
        ;;
    esac
    same '0 ' "$(values restarts "$ROUND")" restarts
    same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u |
        wc -l)" instances
    none_overlap
    open_gate
    for name in b c d; do ends_with 0 $name; done
    end_of a
    close_gate
    nothing_left
done
