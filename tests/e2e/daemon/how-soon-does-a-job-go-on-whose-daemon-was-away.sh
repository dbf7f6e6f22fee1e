#!/bin/sh
# A daemon is killed, and stays away for longer than the leases of a job that
# could shrink, so that all of its workers are killed: does the next daemon on
# that machine go on with the run at once, though no node is sure that no round
# went on without it? And does the job wait if that cannot be known?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
port=$(free_port)
mark="/dev/shm/ddprun-server_$(id -u)_$port"
daemon one "$port"
for name in a b; do
    node $name --nnodes=1:2 --max_restarts=0 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=8,is_host=0 ./careful
done
wait_world 2
first=$ROUND
for what in known unknown; do
    kill -KILL "$(pid_of one)"
    end_of one
    for name in a b; do
        wait_for 'the workers are killed' $name.err
    done
    sleep 2
    [ $what = known ] || rm "$mark" || fail 'there is no mark'
    began=$(now_ms)
    daemon one "$port"
    wait_world 2 "$first" 30
    measured "the daemon before is $what: the next round runs after $(took) ms"
    none_overlap
    if [ $what = known ]; then
        in_time 3000 "$(took)" 'the next round'
    else
        [ "$(took)" -gt 7000 ] || fail 'the longest lease was not waited for'
    fi
    same '0 ' "$(values restarts "$ROUND")" restarts
    first=$ROUND
    for name in a b; do
        : >$name.err
    done
done
open_gate
for name in a b; do
    ends_with 0 $name
done
kill -TERM "$(pid_of one)"
ends_with 0 one
rm -f "$mark"
