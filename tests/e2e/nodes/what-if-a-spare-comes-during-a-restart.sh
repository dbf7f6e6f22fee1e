#!/bin/sh
# A worker has failed and another one takes its time to go when a third node
# comes: where there is no room, does it wait and disturb nobody; where there
# is, is it in the very next round?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

cat >slow <<'SLOW'
#!/bin/sh
[ "$DDP_ROUND.$RANK" != 1.0 ] || trap '' TERM
"$E2E_LIB/worker" gate &
wait
SLOW
chmod +x slow
for most in 2 3; do
    : >started
    port=$(free_port)
    come()
    {
        node "$1" --nnodes=2:$most --max_restarts=1 --shutdown_timeout=6 --failure_grace=6 \
            --scale_interval=0 --rdzv_endpoint="127.0.0.1:$port" \
            --rdzv_conf=last_call_timeout=0 ./slow
        wait_listener "$port"
    }
    come a
    come b
    wait_round 1 2
    began=$(now_ms)
    # The worker that fails is rank 1's launcher's own, the shell above.
    kill -KILL "$(ps -o ppid= -p "$(worker_of 1 1)")"
    wait_for 'stopping the others\|round 1 is over' a.err
    come c
    wait_round 2 $most
    [ "$(took)" -ge 5900 ] || fail 'the restart was over before the spare came'
    same "$most " "$(values world 2)" 'world size'
    same '1 ' "$(values restarts 2)" restarts
    [ $most -eq 3 ] || {
        wait_for 'waits as a spare' c.err
        lines 0 ' node=c ' started
    }
    sleep 0.5
    same 2 "$(newest_round)" rounds
    open_gate
    for name in a b; do ends_with 0 $name; done
    [ $most -eq 3 ] && ends_with 0 c || ends_with 85 c
    nothing_left
    close_gate
done
