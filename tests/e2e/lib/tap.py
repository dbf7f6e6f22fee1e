"""A relay that writes down what passes both ways, and into FILE.first what its first
client says.

usage: tap.py PORT TO FILE    from 127.0.0.1:PORT to 127.0.0.1:TO
"""
import selectors
import socket
import sys

port, to, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
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
                peer[s].sendall(data)
                continue
            peer[s].shutdown(socket.SHUT_WR)
        except OSError:
            pass  # that end is gone; the other one will see it
        sel.unregister(s)
