#!/bin/sh
# Another node hears of the first round before the one that has the store: is
# what its worker says to the store at once kept?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >keys.py <<'PY'
import os, socket, struct, sys
s = socket.create_connection((os.environ["MASTER_ADDR"],
                              int(os.environ["MASTER_PORT"])), timeout=30)
def text(t): return struct.pack("<Q", len(t)) + t
s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
s.sendall(b"\4" + text(b"here") + struct.pack("<q", 1))
open(os.environ["E2E_DIR"] + "/said", "a").write("said\n")
n = struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))[0]
open(os.environ["E2E_DIR"] + "/heard", "a").write(f"count {n}\n")
PY
touch said heard
port=$(free_port)
daemon rd "$port"
# The one that has the store hears two seconds later that the round has begun.
way=$(free_port)
background tap python3 "$E2E_LIB/tap.py" "$way" "$port" wire '"kind":"go"' 2
wait_for ready tap.out
node a --nnodes=2 --rdzv_backend=c10d --node_rank=0 --rdzv_conf=is_host=0 \
    --rdzv_endpoint="127.0.0.1:$way" "$WORKER" gate
wait_for 'joined' rd.err
node b --nnodes=2 --rdzv_backend=c10d --node_rank=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" become python3 keys.py
wait_for 'said' said
lines 0 'rank=0' started
wait_for 'count 1' heard
open_gate
all_end 0 a b
