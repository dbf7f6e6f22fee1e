#!/bin/sh
# The node with rank 0, where the workers' store is, is lost with its power,
# then the next one with its cable; the daemon is elsewhere: do the others go on
# with another MASTER_ADDR, on which a store answers?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools python3
careful_worker
cat >first <<'FIRST'
#!/bin/sh
# Says that the store of its round answered, before it is careful.
python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "$RANK" &&
    echo "round=$DDP_ROUND" >>"$E2E_DIR/stores"
exec ./careful
FIRST
chmod +x first
network server a b c
daemon_on server d 29500
nodes_on "a b c" --nnodes=1:3 --max_restarts=1 \
    --rdzv_endpoint=server:29500 --rdzv_conf=heartbeat_timeout=1 ./first
wait_world 3
head_of() { sed -n "s/^round=$1 rank=0 .* node=\([a-z]\) .*/\1/p" started; }
head=$(head_of 1) addresses=$(values master 1)
began=$(now_ms)
kill_node "$head"
wait_world 2 1
measured "head node without power: the others run after $(took_to 2) ms," \
    "with python3 and a store's round trip in it"
next=$(head_of 2) addresses="$addresses $(values master 2)"
cut_off "$next"
eventually 30 has_lines 1 "^round=[3-9] .* world=1 " started ||
    fail 'the last node does not go on alone'
wait_world 1 2
addresses="$addresses $(values master "$ROUND")"
same 3 "$(echo $addresses | tr ' ' '\n' | sed 's/:.*//' | sort -u | wc -l)" \
    "different MASTER_ADDR in $addresses"
lines 3 '^round=1$' stores
lines 2 '^round=2$' stores
lines 1 "^round=$ROUND\$" stores
same '0 ' "$(values restarts "$ROUND")" restarts
none_overlap
open_gate
last=$(head_of "$ROUND")
ends_with 0 "$last"
nothing_left "$head"
nothing_left "$last"
for pid in $(workers_on "$next" 2); do
    is_gone "$pid" || fail "worker $pid of $next lives"
done
