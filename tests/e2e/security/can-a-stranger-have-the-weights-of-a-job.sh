#!/bin/sh
# Workers send each other weights. Somebody who reaches their ports, and knows all that
# their store shows, calls wherever one of them listens: does he get a byte of these, do
# the workers meet all the same, and is each step on two nodes as ever?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/sharded" ] || skip 'sharded is not built: make e2e-programs'
command -v python3 >/dev/null || skip 'needs python3'

# The last worker comes later: the others listen for it, and the stranger has time.
cat >train <<'TRAIN'
#!/bin/sh
echo "round=$DDP_ROUND rank=$RANK pid=$$ node=${E2E_MARK##*:} at=$(date +%s%3N)" \
    >>"$E2E_DIR/started"
[ "$RANK" -ne 3 ] || [ ! -e crowd ] || sleep 3
exec "$E2E_BIN/sharded" "$@"
TRAIN
chmod +x train

cat >stranger.py <<'PY'
"""Calls where these processes listen, until it is told to end: silence, nonsense, and
a hello that is right, with a guess in the place of the proof. argv: instance, pids."""
import os, select, socket, struct, sys
instance, pids = sys.argv[1].encode(), sys.argv[2:]
MAGIC = b"\xddddpcpu\x06"
kept, seen, most, replies, calls = [], set(), 0, 0, 0

def listening():
    """(port, inode) of all that listen; of our processes those that are new."""
    ports = {}
    with open("/proc/net/tcp") as f:
        for line in f.readlines()[1:]:
            row = line.split()
            if row[3] == "0A":
                ports["socket:[%s]" % row[9]] = int(row[1].split(":")[1], 16)
    for pid in pids:
        try:
            fds = os.listdir("/proc/%s/fd" % pid)
        except OSError:
            continue  # it has ended
        for fd in fds:
            try:
                link = os.readlink("/proc/%s/fd/%s" % (pid, fd))
            except OSError:
                continue  # closed meanwhile
            if link in ports and link not in seen:
                seen.add(link)
                yield ports[link]

def call(port, words):
    global calls
    try:
        s = socket.create_connection(("127.0.0.1", port), timeout=10)
        s.sendall(words)
    except OSError:
        return None  # nobody listens there any more
    calls += 1
    kept.append(s)
    return s

def heard(s):
    """All that comes until the other end hangs up."""
    n = 0
    try:
        while data := s.recv(4096):
            n += len(data)
    except OSError:
        pass  # a reset
    return n

def guess(port, comm, to):
    global most, replies
    hello = struct.pack("<8s32sqIIIIII16s", MAGIC, instance, 1, comm, 4, 3, to, 0, 0,
                        b"n" * 16)
    s = call(port, hello)
    if s is None:
        return
    try:
        reply = s.recv(40, socket.MSG_WAITALL)
        if len(reply) == 40 and reply[8] == 1:
            replies += 1
            s.sendall(b"guessed!")
    except OSError:
        return
    most = max(most, heard(s))

print("calling", flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    for port in listening():
        for n in range(100):
            call(port, b"" if n % 2 else b"GET / HTTP/1.1\r\n\r\n")
        for to in range(3):
            for comm in range(2):
                guess(port, comm, to)
for s in kept:
    s.settimeout(10)
    if s.fileno() >= 0:
        most = max(most, heard(s))
print("listeners=%d calls=%d taken=%d bytes=%d" % (len(seen), calls, replies, most),
      flush=True)
PY

machine()
{
    node "$1" --nnodes=2 --nproc_per_node=2 --rdzv_id="$run" \
        --rdzv_endpoint="127.0.0.1:$port" --rdzv_conf=heartbeat_timeout=2 \
        ./train 150 10
}

# last LINE: of rank 0, at the end of the run.
at_end()
{
    cat ./[ab].out | sed -n "s/^step 150: $1.*/\\1/p" | sort -u
}

port=$(free_port)
daemon server "$port"
run=alone
machine a
machine b
ends_with 0 a 30
ends_with 0 b 30
wanted=$(at_end 'sum \([0-9]*\),')
[ -n "$wanted" ] || fail 'nobody comes to the end'
for file in a.out b.out; do
    has_not '^strangers' "$file"
done
rm -f ./[ab].out ./[ab].err
: >started
: >crowd

run=crowded
machine a
machine b
wait_round 1 4
pid=$(sed -n 's/^round=1 rank=0 pid=\([0-9]*\) .*/\1/p' started)
instance=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^DDP_INSTANCE=//p')
key=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^DDP_ROUND_KEY=//p')
[ ${#key} -eq 32 ] || fail "a worker has the key '$key'"
mkfifo hold
# shellcheck disable=SC2016,SC2046 # not here; pids
background stranger sh -c 'exec python3 stranger.py "$@" <hold' sh "$instance" \
    $(sed -n 's/.* pid=\([0-9]*\) .*/\1/p' started)
exec 8>hold
wait_for calling stranger.out
ends_with 0 a 60
ends_with 0 b 60
echo >&8
exec 8>&-
wait_for '^listeners=' stranger.out
end_of stranger
measured "$(sed -n '/^listeners=/p' stranger.out)"

eval "$(sed -n 's/^\(listeners=.*\)/\1/p' stranger.out)"
[ "$listeners" -gt 2 ] || fail "workers listened $listeners times only"
[ "$taken" -gt 0 ] || fail 'no worker heard a hello of the stranger'
[ "$bytes" -le 0 ] || fail "the stranger got $bytes bytes"
same "$wanted" "$(at_end 'sum \([0-9]*\),')" 'sum of the table'
mirrored=$(at_end 'sum [0-9]*, \([0-9]*\) mirrored')
[ "${mirrored:-0}" -ge 140 ] || fail "step $mirrored of 150 is on two nodes"
cat a.out b.out >both
has_not '^no mirrors' both
has '^strangers: connections to rank [0-2] that were no rank.s of its round' both
has_not "$key" both
nothing_left a
nothing_left b
