#!/bin/sh
# The daemon is gone for good: do the nodes go on by themselves, is a failure dealt
# with, and does the job end as it would have with it, well and badly?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

for how in well badly; do
    : >started
    port=$(free_port)
    daemon d "$port"
    nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=reconnect_timeout=2,heartbeat_timeout=1,is_host=0 \
        "$WORKER" gate
    wait_round 1 4
    kill -KILL "$(pid_of d)"
    end_of d
    for name in a b; do
        wait_for 'connected to the rendezvous again' $name.err
    done
    sleep 3 # longer than both times
    lines 4 '^round=' started
    kill -QUIT "$(worker_of 1 1)"
    wait_lines 8 '^round=' started
    same '1 ' "$(values restarts '[2-9]')" restarts
    if [ $how = well ]; then
        open_gate
        all_end 0 a b
        close_gate
    else
        kill -QUIT "$(worker_of 0 '[2-9]')"
        all_end 131 a b
    fi
    nothing_left
done
