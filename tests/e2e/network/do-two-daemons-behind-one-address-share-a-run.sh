#!/bin/sh
# Two daemons live behind one address, as behind a virtual one or a service, and
# the one that knew the job is gone: do those that meet go on, does the third find
# them once the address leads it there, and is there never a second rank 0?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_tools python3
careful_worker
# Each connection goes to the port in the file `to`. SIGHUP breaks all of them.
cat >relay.py <<'PY'
import select, signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
other = {}
broken = False
def on_hup(*_):
    global broken
    broken = True
signal.signal(signal.SIGHUP, on_hup)
print("ready", flush=True)
def end(s):
    for one in (s, other.pop(s)):
        one.close()
        other.pop(one, None)
while True:
    if broken:
        broken = False
        while other:
            end(next(iter(other)))
    for s in select.select([listener, *other], [], [], 0.05)[0]:
        if s is listener:
            a = listener.accept()[0]
            try:
                port = int(open(sys.argv[2]).read())
                b = socket.create_connection(("127.0.0.1", port))
            except (OSError, ValueError):
                a.close()
                continue
            other[a], other[b] = b, a
        elif s in other:
            try:
                data = s.recv(65536)
            except OSError:
                data = b""
            if data:
                other[s].sendall(data)
            else:
                end(s)
PY
old=$(free_port)
daemon old "$old"
# A relay for each node, so that the scenario says who lands where.
for name in a b c; do
    echo "$old" >"to.$name"
    relay=$(free_port)
    background "relay_$name" python3 relay.py "$relay" "to.$name"
    wait_for ready "relay_$name.out"
    node $name --nnodes=1:3 --max_restarts=3 --rdzv_id=job \
        --rdzv_endpoint="127.0.0.1:$relay" --scale_interval=0 \
        --rdzv_conf=heartbeat_timeout=2,reconnect_timeout=20,is_host=0 \
        ./careful
done
wait_world 3
first=$ROUND
few=$(free_port)
daemon few "$few"
many=$(free_port)
daemon many "$many"
echo "$few" >to.a
echo "$many" >to.b
echo "$many" >to.c
kill -KILL "$(pid_of old)"
end_of old
for name in a b c; do
    kill -HUP "$(pid_of relay_$name)"
done
for name in b c; do
    wait_for 'connected to the rendezvous again' $name.err
done
sleep 3 # longer than a lease: who is alone by now has stopped its workers
none_overlap
echo "$many" >to.a
kill -HUP "$(pid_of relay_a)"
all_run() { has_lines 3 "^round=$(newest_round) " started; }
eventually 30 all_run || fail 'not all three run'
again=$(newest_round)
has_not '^run job .*: sealed' few.err
# A failure is dealt with once.
kill -KILL "$(worker_of 1 "$again")"
wait_world 3 "$again" 30
same '1 ' "$(values restarts "$ROUND")" restarts
none_overlap
has_not 'sealed' few.err
open_gate
all_end 0 a b c
