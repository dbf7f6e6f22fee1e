#!/bin/sh
# The daemon proposes a round, only one of two nodes hears of it, and the daemon
# is killed and started anew: do both come to one world, with no charge? And so
# when it is killed at any moment around the last node's coming?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft
careful_worker
network server a b
daemon_on server d 29500
come()
{
    node_on "$1" "$1" --rdzv_id="$2" --nnodes=2 --max_restarts=1 \
        --rdzv_endpoint=server:29500 \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=4,is_host=0 ./careful
}

again()
{
    kill_guard d # the daemon is one process
    end_of d
    daemon_on server d 29500
}

come a half
wait_for 'waiting' a.err
# What the daemon says to a gets lost from now on; b completes the round.
nft_on server add table inet fault
nft_on server 'add chain inet fault o { type filter hook output priority 0; }'
nft_on server 'add rule inet fault o ip daddr 10.77.0.2 drop'
come b half
wait_for 'joined node=b' d.err
sleep 0.3
lines 0 '^round=' started
again
mend server
began=$(now_ms)
wait_world 2 0 30
measured "proposed to one of two, daemon killed: both run after $(took) ms" \
    "in round $ROUND"
same 1 "$(values instance "$ROUND" | wc -w)" instances
same '0 ' "$(values restarts "$ROUND")" restarts
open_gate
all_end 0 a b
close_gate

for delay in 0.004 0.014; do
    : >started
    come a "at$delay"
    wait_for 'waiting' a.err
    come b "at$delay"
    sleep $delay
    again
    wait_world 2 0 30
    same 1 "$(values instance "$ROUND" | wc -w)" "instances, killed at $delay"
    same '0 ' "$(values restarts "$ROUND")" "restarts, killed at $delay"
    open_gate
    all_end 0 a b
    close_gate
done
none_overlap
nothing_left a
nothing_left b
