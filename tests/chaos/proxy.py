"""A transparent proxy on a machine of tests/chaos: what the machine's processes
send to others by TCP comes here by a redirection (machines.py) and is passed on.
usage: proxy.py PORT
SIGKILL ends it: the kernel then ends both halves of each connection as it likes.
SIGUSR1: it resets both halves of each connection right behind the next data that
it passes on, and ends half a second later.
"""

import signal
import socket
import struct
import sys
import threading
import time

MARK = 7  # of its own connections, which are not redirected
SO_ORIGINAL_DST = 80
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets

is_over = threading.Event()


def original(end):
    address = end.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
    port, host = struct.unpack("!2xH4s8x", address)
    return socket.inet_ntoa(host), port


def close(*ends):
    """Wakes who reads there, too."""
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()


def reset(*ends):
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        end.close()


def carry(end, other):
    """What comes by `end` goes out by `other`, until either half ends."""
    try:
        while data := end.recv(65536):
            other.sendall(data)
            if is_over.is_set():
                reset(other, end)
                return
    except OSError:
        pass
    close(end, other)


def take(near):
    far = socket.socket()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    try:
        far.connect(original(near))
    except OSError:
        reset(near, far)
        return
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=carry, args=(far, near), daemon=True).start()
    carry(near, far)


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    signal.signal(signal.SIGUSR1, lambda *_: is_over.set())
    listener = socket.create_server(("0.0.0.0", int(sys.argv[1])), backlog=256)
    print("ready", flush=True)
    listener.settimeout(0.1)
    while not is_over.is_set():
        try:
            near, _ = listener.accept()
        except TimeoutError:
            continue
        near.settimeout(None)
        threading.Thread(target=take, args=(near,), daemon=True).start()
    listener.close()
    time.sleep(0.5)


main()
