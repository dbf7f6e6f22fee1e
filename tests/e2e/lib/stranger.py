"""A stranger at a rendezvous without a token: to the run "job" of two nodes whose
program is "worker".

usage:

    stranger.py PORT ended INSTANCE [TERM]
        comes as a node of round 1 that heard of this instance's end, and promised to
        obey this term (none). Prints what it is told, and "closed" when the server
        hangs up; or "kept", a second after it was told to wait
    stranger.py PORT spare    joins, and prints what it is told of the instance
    stranger.py PORT leave    joins, and says that all nodes are to leave
    stranger.py PORT order    orders that the run be ended
"""
import json
import socket
import struct
import sys

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


OPTIONS = """--nnodes=2
--max_restarts=0
--crash_loop=0
--node_strikes=0
--rdzv_backend=c10d
--mpi=none
--rdzv_conf=heartbeat_timeout=5s
--rdzv_conf=reconnect_timeout=600s
worker"""


def join(port, agent, **more):
    p = Peer(port)
    p.s.sendall(HEAD)
    p.say(kind="join", version=2, run="job", agent="%032x" % agent,
          name="stranger", options=OPTIONS, nodes_min=2,
          nodes_max=2, nproc=1, max_restarts=0,
          join_ms=600000, heartbeat_ms=5000, last_call_ms=30000,
          reconnect_ms=600000, **more)
    return p


def claim_end(port, instance, term=0):
    promised = {"term": f"{term}.{'f' * 16}"} if term else {}
    p = join(port, 9, instance=instance, round=1, ended=1, **promised)
    is_waiting = False
    try:
        m = p.hear()
        while m is not None:
            print(m["kind"], json.dumps(m))
            is_waiting |= m["kind"] == "waiting"
            if is_waiting:
                p.s.settimeout(1)
            m = p.hear()
        print("closed")
    except socket.timeout:
        if not is_waiting:
            raise
        print("kept")


def order_end(port):
    p = Peer(port)
    p.s.sendall(HEAD)
    p.say(kind="order", version=2, verb=1, run="job")
    m = p.hear()
    assert m is not None and m["kind"] == "answered", m
    print(m["text"])


def come(port, leaves):
    p = join(port, 10)
    m = p.hear()
    while m is not None:
        print(json.dumps(m))
        if m["kind"] == "refused":
            sys.exit("it is refused: " + m["text"])
        if m["kind"] == "waiting":
            assert m["what_for"] == 2, m # a spare
            print("told", m["instance"])
            if not leaves:
                break
            p.say(kind="leave", what=1, signal=15)
        m = p.hear()


port, deed = int(sys.argv[1]), sys.argv[2]
if deed == "ended":
    claim_end(port, sys.argv[3], *map(int, sys.argv[4:]))
elif deed == "order":
    order_end(port)
else:
    come(port, deed == "leave")
