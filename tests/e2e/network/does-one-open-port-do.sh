#!/bin/sh
# A firewall on each machine lets in one TCP port only: do two nodes meet there,
# do workers reach their store at the same port (--master_port, static), and is
# a failure dealt with?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools nft python3
cat >client <<'CLIENT'
#!/bin/sh
# The store, then a failure of rank 1 the first time.
python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "$RANK" &&
    echo "round=$DDP_ROUND" >>"$E2E_DIR/stores" || exit 9
exec "$E2E_LIB/worker" once 1 7
CLIENT
chmod +x client
network host other
for machine in host other; do open_only $machine 29500; done
ip netns exec dpe$$-other python3 -c '
import socket
s = socket.socket()
s.settimeout(1)
raise SystemExit(s.connect_ex(("10.77.0.1", 29501)) == 111)' ||
    fail 'the firewall lets everything in'
for rank in 0 1; do
    node_on $([ $rank = 0 ] && echo host || echo other) n$rank --nnodes=2 \
        --node_rank=$rank --rdzv_backend=static --max_restarts=1 \
        --master_addr=host --master_port=29500 ./client
done
wait_round 2 2
same 'host:29500 ' "$(values master 2)" MASTER
open_gate
all_end 0 n0 n1
lines 2 'round=1' stores
lines 2 'round=2' stores
nothing_left
