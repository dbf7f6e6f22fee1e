"""Plays the same bytes on ddprun's store, at MASTER_ADDR:MASTER_PORT, and on a
server of PyTorch's own in this process, and compares what comes back on each
connection after each request.

usage: store_beside.py classic|uv
Prints "the same N times" or each difference. PyTorch 1.13 speaks the old family
and has one server, "classic"; newer ones have both and speak the new family.
What is not played because it differs by intent: docs/torchrun.md, The store.
"""

import os
import select
import socket
import struct
import sys

import torch
from torch.distributed import TCPStore

QUIET_S = 0.02  # nothing came for so long: nothing will
LATE_S = 0.3  # or it is held back
OLD = ["SET", "COMPARE_SET", "GET", "ADD", "CHECK", "WAIT", "GETNUMKEYS"]
OLD += ["WATCH_KEY", "DELETE_KEY"]
NEW = ["VALIDATE", *OLD[:7], *OLD[8:], "APPEND", "MULTI_GET", "MULTI_SET"]
NEW += ["CANCEL_WAIT", "PING", "QUEUE_PUSH", "QUEUE_POP", "QUEUE_LEN"]
NEW += ["LIST_KEYS", "BARRIER"]

# Lines of requests: CONNECTION OPERATION ARGUMENT...; a number is a word
# like #5 (8 bytes) or ##5 (4 bytes), any other a string, and - the empty one.
BOTH = """
0 SET /a x
0 GET /a
0 SET /a -
1 GET /a
0 SET - v
1 GET -
0 ADD /n #1
1 ADD /n #-3
0 GET /n
0 SET /m \t7x
0 ADD /m #1
0 SET /m text
0 ADD /m #1
0 COMPARE_SET /c old new
0 COMPARE_SET /c - new
0 COMPARE_SET /c other newer
1 COMPARE_SET /c new newest
0 GET /c
0 CHECK #1 /c
0 CHECK #2 /c /none
0 WAIT #2 /c /a
0 WAIT #2 /w1 /w2
1 WAIT #1 /w1
2 SET /w1 v
2 ADD /w2 #0
2 SET /w2 v
0 DELETE_KEY /w1
0 DELETE_KEY /w1
0 CHECK #1 /w1
0 WAIT #2 /d1 /d2
1 SET /d1 v
1 DELETE_KEY /d1
1 SET /d2 v
0 WAIT #2 /twice /twice
1 SET /twice v
0 GETNUMKEYS
"""
WATCHED = """
0 WATCH_KEY /k
1 SET /k v
1 SET /k v
1 ADD /n2 #1
0 WATCH_KEY /n2
1 ADD /n2 #2
1 COMPARE_SET /k x y
1 COMPARE_SET /k v z
1 DELETE_KEY /k
1 DELETE_KEY /k
1 COMPARE_SET /k - q
2 WATCH_KEY /k
2 WATCH_KEY /k
1 SET /k three
1 GETNUMKEYS
"""
NEWER = """
0 PING ##12345
0 APPEND /ap 1
0 APPEND /ap 2
0 GET /ap
0 ADD /ap #1
1 WAIT #1 /ap2
0 APPEND /ap2 -
0 MULTI_SET #2 /m1 one /m2 -
0 MULTI_GET #3 /m2 /m1 /ap
0 MULTI_SET #0
1 WAIT #2 /x1 /x2
1 CANCEL_WAIT
0 SET /x1 v
0 SET /x2 v
1 CANCEL_WAIT
1 GET /x1
0 BARRIER /b #2
1 BARRIER /b #2
1 GET /b
1 BARRIER /b #2
0 BARRIER /b0 #0
0 BARRIER /c3 #3
2 WAIT #1 /c3
1 ADD /c3 #0
3 WAIT #1 /e
0 BARRIER /e #3
1 BARRIER /e #3
1 CANCEL_WAIT
2 BARRIER /e #3
1 GET /e
0 SET /f text
0 BARRIER /f #1
0 GETNUMKEYS
0 LIST_KEYS
"""
QUEUES = """
0 GET /none
0 MULTI_GET #1 /none
0 QUEUE_LEN /q
0 QUEUE_POP /q
0 QUEUE_PUSH /q one
0 QUEUE_PUSH /q -
0 QUEUE_LEN /q
0 CHECK #1 /q
0 WAIT #1 /q
0 GETNUMKEYS
0 LIST_KEYS
0 DELETE_KEY /q
0 GET /q
0 QUEUE_POP /q
0 QUEUE_POP /q
0 QUEUE_POP /q
0 CHECK #1 /q
0 WAIT #1 /r
1 WAIT #1 /r
2 WAIT #2 /r /s
3 QUEUE_PUSH /r 1
3 QUEUE_PUSH /r 2
3 SET /s v
0 QUEUE_POP /r
1 QUEUE_POP /r
"""


def word(text):
    if text.startswith("##"):
        return struct.pack("<I", int(text[2:]))
    if text.startswith("#"):
        return struct.pack("<q", int(text[1:]))
    data = b"" if text == "-" else text.encode()
    return struct.pack("<Q", len(data)) + data


class Side:
    """One of the two servers, with connections by number."""

    def __init__(self, host, port, is_new):
        self.address = (host, port)
        self.is_new = is_new
        self.conns = {}

    def send(self, conn, data):
        if conn not in self.conns:
            s = socket.create_connection(self.address, timeout=30)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.is_new:
                s.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
            self.conns[conn] = s
        self.conns[conn].sendall(data)

    def hang_up(self):
        for s in self.conns.values():
            s.close()
        self.conns = {}

    def take(self, s, got):
        conn = next(c for c, other in self.conns.items() if other is s)
        try:
            data = s.recv(65536)
        except ConnectionResetError:
            data = b""
        got[conn] = got.get(conn, b"") + (data or b"CLOSED")
        if not data:
            self.conns.pop(conn).close()


def listen(sides, quiet_s=QUIET_S):
    """What came on each side, by connection, until it is quiet."""
    got = [{}, {}]
    while True:
        owner = {s: i for i in (0, 1) for s in sides[i].conns.values()}
        ready = select.select(list(owner), [], [], quiet_s)[0]
        if not ready:
            return got
        for s in ready:
            sides[owner[s]].take(s, got[owner[s]])


def is_late(ours, theirs):
    """Whether theirs is the same with its end still to come: the classic
    server holds back a length that no bytes follow (MSG_MORE), for 200 ms."""
    return ours.keys() >= theirs.keys() and all(
        ours[c].startswith(theirs.get(c, b"")) for c in ours
    )


def in_any_order(data):
    """A list of keys: a number, and so many strings."""
    at, keys = 8, []
    while at < len(data):
        n = struct.unpack_from("<Q", data, at)[0]
        keys.append(data[at + 8 : at + 8 + n])
        at += 8 + n
    return data[:8], sorted(keys)


def play(sides, codes, script):
    """How many requests were answered alike, and the others."""
    alike, others = 0, []
    for line in script.strip("\n").split("\n"):
        conn, op, *words = line.split(" ")
        data = bytes([codes.index(op)]) + b"".join(map(word, words))
        for side in sides:
            side.send(int(conn), data)
        ours, theirs = listen(sides)
        if ours != theirs and is_late(ours, theirs):
            for c, data in listen(sides, LATE_S)[1].items():
                theirs[c] = theirs.get(c, b"") + data
        if op == "LIST_KEYS":
            ours, theirs = (
                {c: in_any_order(d) for c, d in side.items()}
                for side in (ours, theirs)
            )
        if ours == theirs:
            alike += 1
        else:
            others.append(f"{line}\n  ours {ours}\n  torch {theirs}")
    for side in sides:
        side.hang_up()
    return alike, others


def main():
    kind = sys.argv[1]
    is_new = not torch.__version__.startswith("1.")
    how = {"use_libuv": kind == "uv"} if is_new else {}
    store = TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=False, **how)
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    sides = [
        Side(*address, is_new),
        Side("127.0.0.1", store.port, is_new),
    ]
    scripts = [BOTH]
    if is_new:
        if hasattr(TCPStore, "barrier"):
            scripts.append(NEWER)
        scripts += [QUEUES] if kind == "uv" else []
    else:
        scripts.append(WATCHED)
    total, wrong = 0, []
    for script in scripts:
        alike, others = play(sides, NEW if is_new else OLD, script)
        total += alike
        wrong += others
    print("\n".join(wrong) if wrong else f"the same {total} times", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
