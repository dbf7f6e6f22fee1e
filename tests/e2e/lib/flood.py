"""Dials a port as fast as one core can and holds what it gets.

usage: flood.py ADDRESS PORT KIND [HELLO_FILE]
KIND says what is said on each connection: nothing (silent), our hello (ours), half
a greeting of TLS (tls), half a request (http), half a query of the store's
(c10d), or all of HELLO_FILE, after which one is closed and another dialled
(hello). Ends when its stdin does; prints how many connections there were.
"""
import collections
import select
import socket
import struct
import sys

TLS = bytes([22, 3, 1, 1, 0x2C, 1, 0, 1, 0x28]) + b"\3\3" + bytes(200)
FIRST = {
    "silent": b"",
    "ours": b"\xddddprun\x01",
    "tls": TLS,
    "http": b"GET /status HTTP/1.1\r\n",
    "c10d": b"\0" + struct.pack("<I", 0x3C85F7CE)[:2],
}
HELD = 900  # as many as the usual soft limit of descriptors allows

address, port, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "hello":
    with open(sys.argv[4], "rb") as f:
        first, held = f.read(), 200
else:
    first, held = FIRST[kind], HELD
kept = collections.deque()
n = 0
print("begins", flush=True)
while n % 100 or not select.select([sys.stdin], [], [], 0)[0]:
    s = socket.socket()
    s.setblocking(False)
    try:
        s.connect((address, port))
    except BlockingIOError:
        pass
    except OSError:
        pass  # out of ports for the moment
    try:
        if first:
            s.send(first)
    except OSError:
        pass  # not connected, or closed at once
    n += 1
    kept.append(s)
    if len(kept) > held:
        kept.popleft().close()
print(kind, n, flush=True)
