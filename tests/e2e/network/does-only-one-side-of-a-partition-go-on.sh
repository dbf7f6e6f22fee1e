#!/bin/sh
# Four nodes of which two are enough, parted into two and two: does the side of
# the daemon go on and the other not, though it were enough? When the partition
# heals after that, are all four in one world, with no charge? And so when the
# rendezvous is a launcher's own?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network server a b c d
daemon_on server rdzv 29500
for host in server a; do
    : >started
    nodes_on "a b c d" --rdzv_id=$host --nnodes=2:4 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=$host:29500 \
        --rdzv_conf=heartbeat_timeout=1 ./careful
    wait_world 4
    first=$ROUND
    same 1 "$first" 'first round'
    began=$(now_ms)
    partition c d
    eventually 30 has_lines 2 "^round=[2-9] .* world=2 " started ||
        fail 'the side of the daemon does not go on'
    measured "parted two and two, rendezvous on $host:" \
        "one side runs again after $(took) ms"
    for name in c d; do
        for pid in $(workers_on $name 1); do
            is_gone "$pid" || fail "worker $pid of $name lives"
        done
    done
    sleep 2 # the other side has the time to do wrong
    lines 2 ' node=[cd] ' started
    alone=$(newest_round)
    heal c
    heal d
    wait_world 4 "$alone" 30
    same 1 "$(values instance "$ROUND" | wc -w)" instances
    same '0 ' "$(values restarts "$ROUND")" restarts
    instances=$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u)
    same 1 "$(echo "$instances" | wc -l)" \
        'instances in all'
    open_gate
    for name in a b c d; do ends_with 0 $name; done
    close_gate
done
none_overlap
for name in a b c d; do nothing_left $name; done
