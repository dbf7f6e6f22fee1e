"""A name server: names.py ADDRESS FILE. The file has a line "NAME ADDRESS" for
each address and is read for each question, so that answers change with it. A name
that it does not have does not exist."""
import socket
import struct
import sys


def name_of(packet, at):
    """The name at that byte, in lower case, and where it ends."""
    labels = []
    while packet[at] != 0:
        labels.append(packet[at + 1:at + 1 + packet[at]])
        at += 1 + packet[at]
    return b".".join(labels).decode().lower(), at + 1


def answer(packet, path):
    name, end = name_of(packet, 12)
    kind, _ = struct.unpack(">HH", packet[end:end + 4])
    with open(path) as f:
        known = [line.split() for line in f]
    here = [addr for other, addr in known if other.lower() == name]
    records = [
        b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(a)
        for a in here if kind == 1
    ]
    flags = 0x8580 if here else 0x8583  # no such name
    return (packet[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) +
            packet[12:end + 4] + b"".join(records))


server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 53))
while True:
    question, peer = server.recvfrom(512)
    try:
        server.sendto(answer(question, sys.argv[2]), peer)
    except (IndexError, ValueError, struct.error):
        pass  # no question
