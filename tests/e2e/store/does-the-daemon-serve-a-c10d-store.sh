#!/bin/sh
# ddprdzvd --c10d: a store on the daemon's port, for both families of clients,
# beside runs, and none of what is done to it disturbs them?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
start_daemon()
{
    rm -f daemon.err # an earlier one's says that it serves, too
    background daemon "$DDPRDZVD" --listen="127.0.0.1:$port" --c10d "$@"
    wait_for 'serving on port .*, with a c10d store' daemon.err
}
use()
{
    python3 "$E2E_LIB/tcpstore.py" 127.0.0.1 "$port" "$1" >"$1.out" 2>&1 ||
        fail "$(cat "$1.out")"
}
store_pid()
{
    _daemon=$(pid_of daemon)
    read -r _store _rest <"/proc/$_daemon/task/$_daemon/children"
    [ -n "$_store" ] || fail 'the daemon has no store process'
}

start_daemon --max_nodes=4
use first

# A run beside a flood: clients that keep the store busy, and hundreds that say
# nothing, half a request, or our own hello and then nothing.
cat >flood.py <<'PY'
import os, socket, struct, sys, time
port = int(sys.argv[1])
quiet = []
for i in range(400):
    s = socket.create_connection(("127.0.0.1", port))
    if i % 4 == 1:
        s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\1\xff\xff")
    elif i % 4 == 2:
        s.sendall(b"\xddddprun\x01")
    elif i % 4 == 3:
        s.sendall(b"\xdd")
    quiet.append(s)
busy = []
for i in range(16):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
    busy.append(s)
value = bytes(1 << 20)
request = b"\1" + struct.pack("<Q", 1) + b"k" + struct.pack("<Q", len(value)) \
    + value
print("flooding", flush=True)
until = time.monotonic() + 5
while time.monotonic() < until:
    for s in busy:
        s.sendall(request)
# Whoever said nothing is a client of the store by now.
quiet[0].sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\4" +
                 struct.pack("<Q", 1) + b"n" + struct.pack("<q", 5))
quiet[0].settimeout(30)
assert quiet[0].recv(8, socket.MSG_WAITALL) == struct.pack("<q", 5)
print("answered", flush=True)
PY
background flood python3 flood.py "$port"
wait_for flooding flood.out
began=$(now_ms)
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
    --rdzv_conf=heartbeat_timeout=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 4
measured "two nodes met beside a flood after $(took_to 1) ms"
wait_for answered flood.out 30
end_of flood
same 0 "$STATUS" 'status of the flood'
has_not 'lost' daemon.err
lines 4 '^round=1 ' started
lines 4 . started
use second

# The store is a process of its own: the run does not notice its end.
store_pid
kill -KILL "$_store"
wait_for 'c10d store ended unexpectedly' daemon.err
use third
open_gate
all_end 0 a b

# It ends with the daemon, however that ends.
store_pid
kill -TERM "$(pid_of daemon)"
ends_with 0 daemon
is_gone "$_store" || fail 'the store outlived the daemon'
start_daemon
store_pid
kill -KILL "$(pid_of daemon)"
end_of daemon
eventually 30 is_gone "$_store" || fail 'the store outlived a killed daemon'

# It cannot be started now, while its user may have no more processes: later.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    chmod 711 "$E2E_WORK" "$E2E_DIR"
    as_other()
    {
        _name=$1
        shift
        background "$_name" setpriv --reuid=54322 --regid=54322 \
            --clear-groups prlimit --nproc=2 "$@"
    }
    as_other other sleep 60
    eventually 30 grep -qs sleep "/proc/$(pid_of other)/comm" ||
        fail 'no process of another user'
    as_other few "$DDPRDZVD" --listen="127.0.0.1:$port" --c10d
    wait_for 'cannot start the c10d store.*trying again' few.err
    kill -KILL "$(pid_of other)"
    use late
    kill -TERM "$(pid_of few)"
    ends_with 0 few
fi

# Not with a token; and without --c10d the port says what it does not speak.
head -c 32 /dev/urandom | base64 >token
chmod 600 token
background it "$DDPRDZVD" --listen="127.0.0.1:$port" --c10d --token_file=token
ends_with 2 it
has 'cannot be used with a token' it.err
daemon plain "$port"
python3 "$E2E_LIB/tcpstore.py" 127.0.0.1 "$port" x >x.out 2>&1 &&
    fail 'a store without --c10d'
wait_for "speaks the c10d store's protocol" plain.err
