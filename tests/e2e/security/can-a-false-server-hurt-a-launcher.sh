#!/bin/sh
# Who answers at the endpoint is not what it should be: does the launcher start
# no worker in a place that cannot be, keep its terminal clean, and end in time?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >false.py <<'PY'
import json, socket, struct, sys, time
HELLO, mode = b"\xddddprun\x01", sys.argv[1]

def frame(what):
    body = json.dumps(what).encode()
    return struct.pack("<I", len(body)) + body

def world(**what):
    return frame({"kind": "world", "instance": "ab" * 16, "round": 1,
                  "restarts": 0, "group_rank": 0, "group_world": 1,
                  "base_rank": 0, "world_size": 2, "role_rank": 0,
                  "role_world": 2, "master_addr": "127.0.0.1",
                  "master_port": 1, **what})

lease = frame({"kind": "lease", "seq": 0, "grant_ms": 80000})
says = {
    "junk": b"\x1b[31mHTTP/1.0 200\r\n\r\n",
    "huge": HELLO + b"\xff\xff\xff\x7f" + b"x" * 100000,
    "ranks": HELLO + lease + world(base_rank=1),
    "group": HELLO + lease + world(group_rank=1),
    "address": HELLO + lease + world(master_addr="1.2.3.4\nX=1 \x1b[2J"),
    "instance": HELLO + lease + world(instance="$(x)"),
    "refusal": HELLO + frame({"kind": "refused", "code": 65,
                              "text": "no\nddprun: forged \x1b[31m"}),
    "silence": b"",
}
server = socket.create_server(("127.0.0.1", 0))
print("port", server.getsockname()[1], flush=True)
kept = []
while True:
    c, _ = server.accept()
    kept.append(c)
    c.recv(4096)
    c.sendall(says[mode])
PY
# asked MODE STATUS PATTERN
asked()
{
    background "$1" python3 false.py "$1"
    wait_for port "$1.out"
    node it --nnodes=1:2 --nproc_per_node=2 --rdzv_conf=is_host=0,join_timeout=1 \
        --rdzv_endpoint="127.0.0.1:$(sed -n 's/^port //p' "$1.out")" \
        "$WORKER" hold
    ends_with "$2" it
    has "$3" it.err
    same 0 "$(tr -d '\n\040-\176' <it.err | wc -c)" 'bytes that are not printable'
    has_not '^ddprun: forged' it.err
    [ "$(wc -c <it.err)" -lt 2000 ] || fail "$1 fills the terminal"
    kill "$(pid_of "$1")"
    end_of "$1"
}
asked junk 69 'not a ddprun rendezvous'
asked huge 69 'impossible length'
for mode in ranks group address instance; do
    asked $mode 76 'the ranks or the address that it gave are impossible'
done
asked refusal 76 'no\\x0addprun: forged \\x1b\[31m'
asked silence 69 'was not reached in 1 s'
same 0 "$(wc -l <started)" 'workers that were started'
nothing_left
