"""A stranger at a rendezvous without a token: to the run "job" of two nodes whose
program is "worker".

usage:

    stranger.py PORT ended INSTANCE   comes as a node that heard of this instance's end
    stranger.py PORT spare            joins, and prints what it is told of the instance
    stranger.py PORT leave            joins, and says that all nodes are to leave
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


port, deed = int(sys.argv[1]), sys.argv[2]
if deed == "ended":
    p = join(port, 9, instance=sys.argv[3], round=1, ended=1)
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
        assert m["what_for"] == 2, m # a spare
        print("told", m["instance"])
        if deed == "leave":
            p.say(kind="leave", all=1, signal=15)
        else:
            break
    if m["kind"] == "end":
        print("answer")
