#!/bin/sh
# Without a token anybody may become a spare, and read /status. Can a stranger use
# what it is shown or told of a run to end it for others, by saying that an earlier
# server had told so, or by an order to leave on all nodes? Does Ctrl-C of a spare
# end the run, and does that of a member?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --orders=none
wait_for 'serving on port' d.err
for n in a b; do
    node $n --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=job \
        "$WORKER" gate
done
wait_round 1 2
whole=$(values instance 1 | head -n 1)
cat >stranger.py <<'PY'
# Joins; says what it is told of the instance, if it comes as one that joins; then
# either that the run has ended, or that all nodes are to leave.
import json, socket, struct, sys

HEAD = b"\xddddprun\x01"


class Peer:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.rest = b""

    def say(self, **m):
        body = json.dumps(m).encode()
        self.s.sendall(struct.pack("<I", len(body)) + body)

    def hear(self):
        while True:
            if self.rest.startswith(HEAD):
                self.rest = self.rest[len(HEAD):]
            if len(self.rest) >= 4:
                n = struct.unpack("<I", self.rest[:4])[0]
                if len(self.rest) >= 4 + n:
                    text, self.rest = self.rest[4:4 + n], self.rest[4 + n:]
                    return json.loads(text)
            more = self.s.recv(65536)
            if not more:
                return None
            self.rest += more


def join(port, agent, **more):
    p = Peer(port)
    p.s.sendall(HEAD)
    p.say(kind="join", version=1, run="job", agent="%032x" % agent,
          name="stranger", prog="worker", backend="c10d", nodes_min=2, nodes_max=2, nproc=1, max_restarts=0,
          join_ms=600000, heartbeat_ms=5000, last_call_ms=30000,
          reconnect_ms=600000, **more)
    return p


port, deed = int(sys.argv[1]), sys.argv[2]
if deed == "ended":
    p = join(port, 9, instance=sys.argv[3], round=1, ended=1, end_status=0)
else:
    p = join(port, 10)
while True:
    m = p.hear()
    if m is None:
        break
    print(json.dumps(m))
    if m["kind"] == "refused":
        sys.exit("it is refused: " + m["text"])
    if m["kind"] == "waiting":
        assert m["spare"] == 1, m
        print("told", m["instance"])
        if deed == "leave":
            p.say(kind="leave", all=1, signal=15)
        else:
            break
    if m["kind"] == "end":
        print("answer")
PY
goes_on()
{
    sleep 0.3
    same active \
        "$(python3 "$E2E_LIB/get.py" "$port" /status 'run["state"]')" 'the run'
    lines 2 '^round=' started
}

shown=$(python3 "$E2E_LIB/get.py" "$port" /status 'run["instance"]')
[ "${#shown}" -ge 8 ] || fail "/status shows no instance, but '$shown'"
python3 stranger.py "$port" spare >spare 2>&1 || fail "$(cat spare)"
told=$(sed -n 's/^told //p' spare)
[ "${#told}" -ge 16 ] || fail "a spare is told no instance, but '$told'"
case $whole in
"$shown" | "$told") fail "a stranger hears the whole instance, $whole" ;;
"$shown"*) ;;
*) fail "/status shows $shown of the instance $whole" ;;
esac
! grep -q "$whole" spare || fail 'a spare is told the whole instance'
zeros=00000000000000000000000000000000
for guess in "$shown" "$told" "$told$(echo $zeros | cut -c "$((${#told} + 1))-")"; do
    python3 stranger.py "$port" ended "$guess" >answer 2>&1 ||
        fail "$(cat answer)"
    has '^answer' answer # this much is answered, and changes nothing
    goes_on
done
python3 stranger.py "$port" leave >left 2>&1 || fail "$(cat left)"
goes_on

# A spare of ours.
node c --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" --rdzv_id=job "$WORKER" gate
wait_for 'spare' c.err
kill -INT "$pid_c"
ends_with 130 c
! grep -q 'lost the connection' c.err || fail 'the spare waits for an end'
goes_on

kill -INT "$pid_b"
ends_with 130 b
ends_with 130 a
has 'ended by signal 2 (SIGINT) on node' a.err
kill -TERM "$pid_d"
ends_with 0 d
