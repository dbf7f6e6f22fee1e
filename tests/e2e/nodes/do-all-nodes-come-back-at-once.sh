#!/bin/sh
# Two nodes of which both are needed, and a daemon. Both nodes are lost at the same
# moment, with their guards, so that nobody says farewell: does the job go on with
# two others that come, by count, a lease after that? Does every launcher say so?
# Does it go on as well if the daemon is lost with one of them, and never beside
# the old workers?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
port=$(free_port)
said='enough nodes are here, and go on without'
start()
{
    node "$1" --rdzv_id=job --nnodes=2 --max_restarts=1 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=heartbeat_timeout=2,reconnect_timeout=30 ./careful
}

daemon d "$port"
for name in a b; do start $name; done
wait_world 2
first=$ROUND
began=$(now_ms)
kill_node a
kill_node b
for name in c e; do start $name; done
wait_world 2 "$first" 30
measured "two nodes of two are lost without a farewell, two others come: they" \
    "run $(took_to "$ROUND") ms after that, a lease is 2 s"
second=$ROUND
same '0 ' "$(values restarts "$second")" restarts
for name in c e; do
    has "$said 2 of the 2 nodes that decide on the next round" $name.err
done
has 'by count' d.err

began=$(now_ms)
kill_node e
kill_node d
start f
wait_world 2 "$second" 30
measured "the daemon and one of two are lost, another one comes: they run" \
    "$(took_to "$ROUND") ms after that"
for name in c f; do
    has "$said 1 of the 2 nodes that decide on the next round" $name.err
done
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
none_overlap
open_gate
for name in c f; do ends_with 0 $name; done
for name in a b c d e f; do nothing_left $name; done
