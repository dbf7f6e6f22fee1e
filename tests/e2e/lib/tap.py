"""A relay that writes down what passes both ways, and into FILE.first what its first
client says.

usage: tap.py PORT TO FILE [TEXT SECONDS]
    from 127.0.0.1:PORT to 127.0.0.1:TO; what holds TEXT, and all behind it, is passed
    on so much later
"""
import selectors
import socket
import sys
import time

port, to, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
late = sys.argv[4].encode() if len(sys.argv) > 4 else None
log = open(path, "wb", buffering=0)
first = open(path + ".first", "wb", buffering=0)
server = socket.create_server(("127.0.0.1", port))
print("ready", flush=True)
sel = selectors.DefaultSelector()
sel.register(server, selectors.EVENT_READ)
peer, clients = {}, []
while True:
    for key, _ in sel.select():
        s = key.fileobj
        if s is server:
            a, _ = s.accept()
            b = socket.create_connection(("127.0.0.1", to))
            peer[a], peer[b] = b, a
            clients.append(a)
            for x in (a, b):
                sel.register(x, selectors.EVENT_READ)
            continue
        try:
            data = s.recv(65536)
            if data:
                log.write(data)
                if s is clients[0]:
                    first.write(data)
                if late is not None and late in data:
                    time.sleep(float(sys.argv[5]))
                peer[s].sendall(data)
                continue
            peer[s].shutdown(socket.SHUT_WR)
        except OSError:
            pass  # that end is gone; the other one will see it
        sel.unregister(s)
