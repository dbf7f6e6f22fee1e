#!/bin/sh
# Is the store at MASTER_ADDR:MASTER_PORT empty again after a restart, and is it
# one for all?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >keys.py <<'PY'
import os, socket, struct, sys
s = socket.create_connection((os.environ["MASTER_ADDR"],
                              int(os.environ["MASTER_PORT"])), timeout=30)
def text(t): return struct.pack("<Q", len(t)) + t
s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
s.sendall(b"\4" + text(b"here") + struct.pack("<q", 1))
n = struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))[0]
with open(os.environ["E2E_DIR"] + "/counts", "a") as f:
    f.write(f"round {os.environ['DDP_ROUND']} count {n}\n")
s.recv(1) # until the store goes, or we do
PY
port=$(free_port)
nodes "a b" --nnodes=2 --nproc_per_node=2 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" "$WORKER" become python3 keys.py
touch counts
wait_lines 4 'round 1' counts
kill -KILL "$(worker_of 3 1)"
wait_lines 4 'round 2' counts
same 'count 1 count 2 count 3 count 4 ' \
    "$(sed -n 's/^round 2 //p' counts | sort | tr '\n' ' ')" 'round 2'
kill -INT "$(pid_of a)"
all_end 130 a b
