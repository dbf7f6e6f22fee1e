"""Talks to a c10d TCPStore in both of its protocol families, by raw bytes.

usage: tcpstore.py HOST PORT NAME
Prints "store ok" when set, get, add, check and wait answer as PyTorch's own
server does. NAME keeps the keys of several callers apart.
"""
import socket
import struct
import sys


def text(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


class Store:
    def __init__(self, host, port, family):
        self.sock = socket.create_connection((host, port), timeout=30)
        self.shift = 0 if family == "old" else 1
        if family == "new":
            self.sock.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))

    def ask(self, op, rest):
        self.sock.sendall(bytes([op + self.shift]) + rest)

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.sock.recv(n - len(data))
            if not more:
                sys.exit("the store closed the connection")
            data += more
        return data

    def number(self):
        return struct.unpack("<q", self.take(8))[0]

    def set(self, key, value):
        self.ask(0, text(key) + text(value))

    def get(self, key):
        self.ask(2, text(key))
        return self.take(self.number()).decode()

    def add(self, key, delta):
        self.ask(3, text(key) + struct.pack("<q", delta))
        return self.number()

    def check(self, key):
        self.ask(4, struct.pack("<Q", 1) + text(key))
        return self.take(1)[0]

    def wait(self, key):
        self.ask(5, struct.pack("<Q", 1) + text(key))
        return self.take(1)[0]


def want(got, wanted, what):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, wanted {wanted!r}")


def main(host, port, name):
    for family in "old", "new":
        store = Store(host, int(port), family)
        key = f"{name}/{family}"
        want(store.check(key), 1, "check of a key that is not there")
        store.set(key, "a value")
        want(store.check(key), 0, "check of a key that is there")
        want(store.get(key), "a value", "get")
        want(store.wait(key), 0, "wait")
        want(store.add(f"{key}/n", 5), 5, "first add")
        want(store.add(f"{key}/n", -2), 3, "second add")
    sys.stdout.write("store ok\n")  # one write: others print too


main(*sys.argv[1:])
