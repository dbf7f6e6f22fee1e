#!/bin/sh
# The workers' own traffic fills a cable of 10 Mbit/s, with a queue of 200 ms
# before it: is no node taken for lost with heartbeat_timeout=2, and is a
# failure dealt with? (A beat that is lost in a full queue comes 0.6 s later,
# and 1.6 s when it is lost twice: a timeout of 1 s is too short for that.)
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools tc python3
careful_worker
network host other
narrow other 10mbit
cat >flood.py <<'PY'
"""Eight streams of bytes to another machine, or the end that takes them."""
import socket
import sys
import threading


def swallow(s):
    while s.recv(1 << 20):
        pass


if sys.argv[1] == "take":
    server = socket.create_server(("0.0.0.0", 7000))
    print("taking", flush=True)
    while True:
        s = server.accept()[0]
        threading.Thread(target=swallow, args=(s,), daemon=True).start()


def pour():
    with socket.create_connection((sys.argv[1], 7000)) as s:
        while True:
            s.sendall(bytes(1 << 20))


for i in range(8):
    threading.Thread(target=pour).start()
print("pouring", flush=True)
PY
# flood MACHINE NAME WORD: in the background, there.
flood()
{
    background "$1_$2" ip netns exec "dpe$$-$1" python3 flood.py "$3"
}
flood host take take
flood other take take
wait_for taking host_take.out
wait_for taking other_take.out
nodes_on "host other" --nnodes=1:2 --max_restarts=1 \
    --rdzv_endpoint=host:29500 --rdzv_conf=heartbeat_timeout=2 ./careful
wait_world 2
flood host pour 10.77.0.2
flood other pour 10.77.0.1
wait_for pouring host_pour.out
wait_for pouring other_pour.out
sleep 6
same 1 "$(newest_round)" 'newest round after three leases'
began=$(now_ms)
kill_worker 1 1
wait_world 2 1 30
measured "a full cable of 10 Mbit/s, heartbeat_timeout=2: no false alarm in" \
    "6 s, a worker killed: both run again after $(took_to 2) ms"
same '1 ' "$(values restarts 2)" restarts
open_gate
ends_with 0 host 30
ends_with 0 other 30
none_overlap
