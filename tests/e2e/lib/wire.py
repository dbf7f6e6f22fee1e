"""A line between two interfaces, for kernels without netem: each frame takes
its time, and one that has to take less overtakes those before it.
usage: wire.py carry ONE OTHER DELAY_MS JITTER_MS
       wire.py plain INTERFACE    no offloading: frames as they are on a cable"""
import array
import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
QUEUE_MAX = 20000  # frames on the way; more are lost
SIOCETHTOOL = 0x8946
# linux/ethtool.h: checksums sent, segmentation by the card, by the kernel,
# and what is received in one piece.
ETHTOOL_OFF = (0x17, 0x1F, 0x24, 0x2C)


def plain(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in ETHTOOL_OFF:
            value = array.array("B", struct.pack("=II", command, 0))
            request = struct.pack("16sP8x", interface.encode(),
                                  value.buffer_info()[0])
            try:
                fcntl.ioctl(s, SIOCETHTOOL, request)
            except OSError:
                if command == ETHTOOL_OFF[0]:
                    raise


def carry(one, other, delay_s, jitter_s):
    random.seed(1)
    ends = []
    for name in (one, other):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                          socket.htons(ETH_P_ALL))
        s.bind((name, 0))
        s.setblocking(False)
        ends.append(s)
    out_of = {ends[0]: ends[1], ends[1]: ends[0]}
    under_way, count = [], 0
    print("carrying", flush=True)
    while True:
        wait = None
        if under_way:
            wait = max(0, under_way[0][0] - time.monotonic())
        for s in select.select(ends, [], [], wait)[0]:
            frame, address = s.recvfrom(65536)
            if address[2] == socket.PACKET_OUTGOING:
                continue  # what we sent ourselves
            if len(under_way) < QUEUE_MAX:
                due = time.monotonic() + delay_s + random.random() * jitter_s
                count += 1
                heapq.heappush(under_way, (due, count, out_of[s], frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(under_way)
            try:
                to.send(frame)
            except OSError:
                pass  # too long, no room, no cable: lost, as on any line


if sys.argv[1] == "plain":
    plain(sys.argv[2])
else:
    carry(sys.argv[2], sys.argv[3], float(sys.argv[4]) / 1000,
          float(sys.argv[5]) / 1000)
