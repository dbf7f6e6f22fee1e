#!/bin/sh
# A node reaches the daemon through a relay, as through a VIP or a port that is
# forwarded. The relay is killed, so that the daemon sees the node's connection
# end, and its port answers nobody: do no two rounds overlap? And does the round
# go on at once if a node behind a relay dies?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools python3
careful_worker
cat >relay.py <<'PY'
import os, select, signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
child = os.fork()
if child > 0: # keeps the port
    print("ready", child, flush=True)
    signal.pause()
other = {}
while True:
    for s in select.select([listener, *other], [], [])[0]:
        if s is listener:
            a = listener.accept()[0]
            b = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
            other[a], other[b] = b, a
            continue
        if s not in other:
            continue
        try:
            data = s.recv(65536)
        except OSError:
            data = b""
        if data:
            other[s].sendall(data)
        else:
            for end in (s, other.pop(s)):
                end.close()
                other.pop(end, None)
PY
port=$(free_port)
relay=$(free_port)
daemon d "$port"
start_relay()
{
    background relay python3 relay.py "$relay" "$port"
    wait_for ready relay.out
}
come()
{
    node "$1" --nnodes=1:2 --max_restarts=3 --rdzv_id=job --scale_interval=0 \
        --rdzv_endpoint="127.0.0.1:$2" \
        --rdzv_conf=heartbeat_timeout=2,is_host=0 ./careful
}
start_relay
come a "$port"
come b "$relay"
wait_world 2
# A node that dies: its guard's farewell comes through.
began=$(now_ms)
kill_agent b
wait_world 1 "$ROUND"
through=$(took)
measured "a launcher killed behind the relay: the other's round runs after $through ms"
in_time 1000 "$through" 'the round after a farewell through a relay'
end_of b
come b "$relay"
wait_world 2 "$ROUND"
# A relay that dies: b lives, and has its lease.
began=$(now_ms)
kill -KILL "$(sed -n 's/^ready //p' relay.out)"
wait_world 1 "$ROUND" 30
measured "the relay killed: the other's round runs after $(took) ms"
none_overlap
[ "$(took)" -ge 1000 ] || fail 'the end of a relay was taken for the end of b'
kill -KILL "$(pid_of relay)"
end_of relay
start_relay
wait_world 2 "$ROUND" 30
none_overlap
open_gate
all_end 0 a b
