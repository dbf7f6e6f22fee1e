#!/bin/sh
# Do garbage, HTTP, silence and half a message do no harm to a run?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
daemon d "$port"
nodes "a b" --nnodes=2 --max_restarts=1 --rdzv_endpoint="127.0.0.1:$port" \
    --rdzv_conf=heartbeat_timeout=1 "$WORKER" gate
wait_round 1 2
cat >strange.py <<'PY'
"""Everything that a port may meet, from many sides at once."""
import random, socket, struct, sys
port = int(sys.argv[1])
kept = []
def dial():
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    kept.append(s)
    return s
def say(data):
    s = dial()
    try:
        s.sendall(data)
    except OSError:
        pass # it may have closed at the first bytes
    return s
def half_close(s):
    try:
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass # the same
random.seed(7)
say(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n")
say(b"\x16\x03\x01\x02\x00" + random.randbytes(500))
say(b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x01" +
    struct.pack("<Q", 1 << 60))
for i in range(30):
    say(random.randbytes(1 + random.randrange(3000)))
hello = bytes.fromhex(sys.argv[2])
for tail in (b"", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x05hello",
             b"\0\0\0\x02{}", b"\0\0\xff\xff" + b"[" * 65535,
             b"\0\0\0\x14" + b'{"kind":"end","status"'):
    say(hello + tail)
    half_close(say(hello + tail))
    s = say(hello + tail)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
for i in range(40):
    dial() # says nothing at all
print("said all")
sys.stdout.flush()
sys.stdin.read() # holds all that is still open
PY
# Our own hello, as the launcher says it, taken from its first bytes.
other=$(free_port)
cat >listen.py <<'PY'
import socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
c, _ = s.accept()
c.settimeout(30)
data = c.recv(4096)
end = data.index(b"{") - 4 if b"{" in data else len(data)
print("hello", data[:end].hex(), flush=True)
PY
background listen python3 listen.py "$other"
wait_for ready listen.out
node x --nnodes=2 --rdzv_endpoint="127.0.0.1:$other" --rdzv_conf=is_host=0 \
    "$WORKER" hold
wait_for hello listen.out
kill -TERM "$(pid_of x)"
ends_with 143 x
hello=$(sed -n 's/^hello //p' listen.out)
case $hello in
[89a-f]*) ;;
*) fail "the first byte of our protocol is not 0x80 or above: $hello" ;;
esac
mkfifo hold
background strange sh -c 'exec python3 strange.py "$@" <hold' sh "$port" \
    "$hello"
exec 8>hold
wait_for 'said all' strange.out
# The run goes on as if nothing had been.
began=$(now_ms)
kill -KILL "$(worker_of 0 1)"
wait_round 2 2
measured "worker killed beside 90 strangers, all run again:" \
    "$(took_to 2) ms"
lines 4 '^round=' started
open_gate
all_end 0 a b
# Somebody who came with all of them is served as well.
node late --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=late true
ends_with 0 late
is_gone "$(pid_of d)" && fail 'the daemon is gone'
has 'connection from 127.0.0.1 closed: the peer speaks the c10d store' d.err
[ "$(grep -c 'connection from .* closed' d.err)" -le 25 ] ||
    fail 'strangers fill the log'
exec 8>&-
end_of strange
