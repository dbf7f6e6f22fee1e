#!/bin/sh
# Messages that follow a refusal, JSON as deep as it goes, names that would
# speak to the terminal, ten times more strangers than there is room for: does
# the daemon live, log one line for each event, and serve those who come then?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --max_nodes=8
wait_for 'serving on port' d.err
cat >strange.py <<'PY'
import json, socket, struct, sys, time
HELLO = b"\xddddprun\x01"
port, kept = int(sys.argv[1]), []

def frame(what):
    body = what if isinstance(what, bytes) else json.dumps(what).encode()
    return struct.pack("<I", len(body)) + body

def join(**what):
    return {"kind": "join", "version": 2, "run": "r", "agent": "1" * 32,
            "name": "n", "nodes_min": 2, "nodes_max": 2, "nproc": 1,
            "max_restarts": 0, "join_ms": 1000, "last_call_ms": 0,
            "heartbeat_ms": 5000, "reconnect_ms": 1000, **what}

def say(data):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    try:
        s.sendall(HELLO + data)
    except OSError:
        pass # closed at the first bytes
    kept.append(s)
    return s

beat = frame({"kind": "beat", "seq": 1, "heard": -1})
say(frame(join(version=9)) + beat * 50) # refused, and more in the same packet
say(beat * 50)
say(frame(join()) + frame(join()) + beat * 50)
for deep in (b"[" * 16000, b'{"a":' * 3000, b"[" * 990 + b"]" * 990,
             b'{"kind":"join"' + b',"a":1' * 2700 + b"}"):
    for i in range(20):
        say(frame(deep))
for s in kept:
    s.close()
kept.clear()
time.sleep(0.3) # there is room for those that are to be told of
say(frame(join(run="a\x1b[31m\nddprdzvd: forged", agent="2" * 32,
               name="evil\r\n\x1b]0;pwn\x07\u009b31m")))
say(frame(b'{"kind":"\x1b[2J\x9b\xff"}'))
for s in kept:
    s.close()
kept.clear()
time.sleep(1) # their places are free again
# More than there is room for; they say hello and nothing else.
for i in range(100):
    say(b"")
print("done", flush=True)
sys.stdin.read()
PY
mkfifo hold
background strange sh -c 'exec python3 strange.py "$1" <hold' sh "$port"
exec 8>hold
wait_for done strange.out
sleep 1.2 # a stranger is given a second to say who he is
is_gone "$(pid_of d)" && fail 'the daemon is gone'
# Those who come now are let in, in the strangers' place.
nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" true
all_end 0 a b
has 'others wait for its place' d.err
# One event, one line, and nothing that is not printable.
has 'run a\\x1b\[31m\\x0addprdzvd: forged' d.err
has 'evil\\x0d\\x0a\\x1b\]0;pwn\\x07\\xc2\\x9b31m' d.err
has_not '^ddprdzvd: forged' d.err
same 0 "$(tr -d '\n\040-\176' <d.err | wc -c)" 'bytes that are not printable'
[ "$(grep -c 'connection from .* closed' d.err)" -le 25 ] || fail 'strangers fill the log'
exec 8>&-
end_of strange
