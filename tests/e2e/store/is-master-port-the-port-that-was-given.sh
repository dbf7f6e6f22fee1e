#!/bin/sh
# --master_port: is it MASTER_PORT, with a store there that is new in each round,
# where the rendezvous sits on the same port, and where it does not?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >client <<'SH'
#!/bin/sh
echo "$RANK $MASTER_ADDR:$MASTER_PORT" >>"$E2E_DIR/masters"
exec python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "of $RANK"
SH
chmod +x client

# at MASTER WORKERS: node a ended well, its workers found a store there.
at()
{
    ends_with 0 a
    same "$1 " "$(cut -d' ' -f2 masters | sort -u | tr '\n' ' ')" 'master'
    lines "$2" '^store ok$' a.out
    rm -f masters
}

# one node, static
port=$(free_port)
node a --master_port="$port" --nproc_per_node=3 ./client
at "127.0.0.1:$port" 3

# with a token the port wants TLS, but for the store
(umask 077 && head -c 32 /dev/urandom | base64 >token)
node a --master_port="$port" --rdzv_token_file=token --nproc_per_node=2 ./client
at "127.0.0.1:$port" 2

# c10d: a port of its own, also the rendezvous's
port=$(free_port)
node a --standalone --master_port="$port" --nproc_per_node=2 ./client
at "127.0.0.1:$port" 2
for master in $((port + 1)) "$port"; do
    node a --rdzv_backend=c10d --rdzv_endpoint="127.0.0.1:$port" \
        --master_port="$master" --nproc_per_node=2 ./client
    at "127.0.0.1:$master" 2
done

# taken: said, and the workers are told of another
python3 -m http.server --bind 127.0.0.1 $((port + 2)) >squatter.out 2>&1 9<&- &
squatter=$!
wait_listener $((port + 2))
node a --standalone --master_port=$((port + 2)) ./client
ends_with 0 a
kill $squatter
has "port $((port + 2)) is taken on this node" a.err
has '^store ok$' a.out
rm -f masters

# a worker that is to serve it itself is left the port
cat >own <<'SH'
#!/bin/sh
exec python3 -c 'import os, socket
port = int(os.environ["MASTER_PORT"])
socket.create_server(("127.0.0.1", port))
print(os.environ["TORCHELASTIC_USE_AGENT_STORE"], port)'
SH
chmod +x own
launch 0 --standalone --worker_store=none --master_port=$((port + 3)) ./own
has "^False $((port + 3))\$" it.out

# fresh in each round, on the port that the rendezvous has
cat >keys.py <<'PY'
import os, socket, struct, sys, time
s = socket.create_connection((os.environ["MASTER_ADDR"],
                              int(os.environ["MASTER_PORT"])), timeout=30)
def text(t): return struct.pack("<Q", len(t)) + t
def add(delta):
    s.sendall(b"\4" + text(b"here") + struct.pack("<q", delta))
    return struct.unpack("<q", s.recv(8, socket.MSG_WAITALL))[0]
s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
again = os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(os.environ["E2E_DIR"] + "/counts", "a") as f:
    f.write(f"round {again} count {add(1)}\n")
while add(0) < 4:
    time.sleep(0.01)
if again == "0":
    time.sleep(0 if os.environ["RANK"] == "3" else 60)
    sys.exit(7)
PY
network host other
for name in other host; do
    rank=0
    [ $name = host ] || rank=1
    node_on $name $name --nnodes=2 --nproc_per_node=2 --node_rank=$rank \
        --max_restarts=1 --master_addr=host --master_port=29500 \
        "$WORKER" become python3 keys.py
done
ends_with 0 host 30
ends_with 0 other
same 'count 1 count 2 count 3 count 4 ' \
    "$(sed -n 's/^round 1 //p' counts | sort | tr '\n' ' ')" 'round 2'
for round in 1 2; do
    same 'host:29500 ' "$(values master $round)" "master of round $round"
done
