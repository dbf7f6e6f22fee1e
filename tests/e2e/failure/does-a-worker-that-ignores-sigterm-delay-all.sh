#!/bin/sh
# One worker of two nodes ignores SIGTERM when the other node's worker fails:
# does no worker of the next round start before it is dead, on either node, and
# does the next round begin as soon as it is?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
cat >firm <<'FIRM'
#!/bin/sh
[ "$DDP_ROUND.$RANK" != 1.0 ] || exec "$E2E_LIB/worker" stubborn
exec ./careful
FIRM
chmod +x firm
port=$(free_port)
for name in a b; do
    node $name --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
        --failure_grace=1.5 --rdzv_endpoint="127.0.0.1:$port" ./firm
    wait_listener "$port"
done
wait_round 1 4
stubborn=$(worker_of 0 1)
eventually 30 grep -q '^SigIgn:.*[4-7c-f]...$' "/proc/$stubborn/status"
began=$(now_ms)
kill_worker 3 1
eventually 30 is_gone "$stubborn" || fail 'the stubborn worker lives on'
gone=$(took)
wait_round 2 4
measured "--failure_grace=1.5: it was dead after $gone ms, all ran again" \
    "after $(took_to 2) ms"
[ "$gone" -ge 1400 ] || fail 'it did not have its time'
in_time 500 $(($(took_to 2) - gone)) 'the round after its death'
first=$(sed -n 's/^round=2 .* at=//p' started | sort -n | head -n 1)
[ $((first - began)) -ge 1400 ] || fail 'a worker of round 2 started before'
none_overlap
same '1 ' "$(values restarts 2)" restarts
open_gate
all_end 0 a b
nothing_left
