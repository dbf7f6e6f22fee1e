#!/bin/sh
# As is-an-early-worker-heard-by-the-store, but in the second round: node b hears
# of it while the node with the store does not yet (in a job that may shrink half of the
# voters are enough for a round). Does its worker find the new store, empty, and is what
# it says there kept?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >keys.py <<'PY'
import os, signal, socket, struct, time
def note(name, text): open(os.environ["E2E_DIR"] + "/" + name, "a").write(text + "\n")
round, rank = os.environ["DDP_ROUND"], os.environ["RANK"]
if round == "1" and rank == "1":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if round == "2" and rank == "0":
    open(os.environ["E2E_DIR"] + "/gate").readline()
    raise SystemExit
s = socket.create_connection((os.environ["MASTER_ADDR"],
                              int(os.environ["MASTER_PORT"])), timeout=30)
def text(t): return struct.pack("<Q", len(t)) + t
s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
s.sendall(b"\4" + text(b"here") + struct.pack("<q", 1))
note("said", f"round {round}")
n = struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))[0]
note("heard", f"round {round} count {n}")
if round == "1":
    if rank == "0":
        while open(os.environ["E2E_DIR"] + "/heard").read().count("\n") < 2:
            time.sleep(0.01)
        raise SystemExit(9)
    time.sleep(300)
PY
touch said heard
port=$(free_port)
daemon rd "$port"
for name in a b; do
    rank=0
    [ $name = a ] || rank=1
    node $name --nnodes=1:2 --rdzv_backend=c10d --node_rank=$rank --max_restarts=1 \
        --shutdown_timeout=5 --rdzv_conf=heartbeat_timeout=20 \
        --rdzv_endpoint="127.0.0.1:$port" python3 keys.py
done
wait_lines 2 'round 1 count' heard
wait_for 'round over' rd.err
sleep 1.5 # a is ready; b's worker lives until its five seconds are over
agent=$(agent_of a)
kill -STOP "$agent"
wait_for 'round 2' said
kill -CONT "$agent"
wait_for 'round 2 count 1' heard
open_gate
all_end 0 a b
has_not 'round 2 count 2' heard
kill "$(pid_of rd)"
end_of rd
nothing_left
