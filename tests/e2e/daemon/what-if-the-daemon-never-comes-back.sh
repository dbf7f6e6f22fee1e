#!/bin/sh
# The daemon is gone for good: do workers finish that do so while their lease
# lasts, and the launchers end with 0, saying that they know nothing of the
# others? Does a failure end with its status, and what still runs when the lease
# is over with 72?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

for how in well badly; do
    : >started
    port=$(free_port)
    daemon d "$port"
    for name in a b; do
        node $name --nnodes=2 --nproc_per_node=2 --max_restarts=3 \
            --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=reconnect_timeout=2,heartbeat_timeout=1,is_host=0 \
            "$WORKER" gate
    done
    wait_round 1 4
    kill -KILL "$(pid_of d)"
    end_of d
    wait_for 'workers run on' a.err
    if [ $how = well ]; then
        open_gate
        for name in a b; do
            ends_with 0 $name
            has 'workers all succeeded; the rendezvous was lost' $name.err
        done
        close_gate
    else
        rank=$(ranks_on a 1)
        kill -QUIT "$(worker_of "${rank%?}" 1)"
        ends_with 131 a
        has 'a worker failed and the rendezvous did not come back' a.err
        ends_with 72 b
        has 'the workers are killed' b.err
        has 'was lost and did not come back in 2 s' b.err
    fi
    nothing_left
done
