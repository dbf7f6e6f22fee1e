"""A rank that speaks PMI-1 without an MPI library, over any number of nodes.

It puts a key, waits in a barrier, gets what each other rank has put, and prints
"RANK SIZE MAPPING KVSNAME". usage: pmi_client.py [HOW]: in the first round
  die    rank 1 is killed once it has put its key
  junk   the last rank writes no PMI, and waits
  flood  the last rank asks without end and reads no answer, until all others have
         got an answer a hundred times; then it writes half a line, and more of it later
  late   the last rank writes no PMI after its finalize
"""
import os
import pathlib
import signal
import socket
import sys
import time

RANK, SIZE = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
SOCKET = socket.socket(fileno=int(os.environ["PMI_FD"]))
STREAM = SOCKET.makefile("rw")
ROUND = os.environ["DDP_ROUND"]
HOW = sys.argv[1] if len(sys.argv) > 1 and ROUND == "1" else "well"
LAST = RANK == SIZE - 1
FOLDER = pathlib.Path(os.environ["E2E_DIR"])


def answer():
    return dict(w.split("=", 1) for w in STREAM.readline().split())


def ask(command, rc="0"):
    STREAM.write(f"cmd={command}\n")
    STREAM.flush()
    words = answer()
    assert words["rc"] == rc, (command, words)
    return words


def flood():
    """Questions, of which the launcher takes no more than it can answer."""
    question, sent = b"cmd=get_maxes\n", 0
    while len(list(FOLDER.glob("served.*"))) < SIZE - 1:
        try:
            sent += SOCKET.send(question[sent % len(question):],
                                socket.MSG_DONTWAIT)
        except BlockingIOError:
            time.sleep(0.01)
    for _ in range(sent // len(question)):
        assert answer()["cmd"] == "maxes"
    SOCKET.sendall(question[sent % len(question):])
    assert answer()["cmd"] == "maxes"
    SOCKET.sendall(b"cmd=get_ap")
    time.sleep(0.1)
    SOCKET.sendall(b"pnum\n")
    assert answer()["appnum"] == "0"


def be_served():
    """Beside it: this node's keys and the names of all nodes."""
    for i in range(100):
        ask(f"put kvsname={NAME} key=own-{RANK} value={i}")
        assert ask(f"get kvsname={NAME} key=own-{RANK}")["value"] == str(i)
        ask(f"publish_name service=own-{RANK} port={i}")
        assert ask(f"lookup_name service=own-{RANK}")["port"] == str(i)
    (FOLDER / f"served.{RANK}").touch()


def share_names():
    """The last rank publishes, the first one withdraws, and all look."""
    ask("lookup_name service=s", rc="-1")
    ask("unpublish_name service=s", rc="-1")
    ask("barrier_in")
    for port in ("p", "q"):
        if LAST:
            ask(f"publish_name service=s port={port}")
        ask("barrier_in")
        assert ask("lookup_name service=s")["port"] == port
        ask("barrier_in")
        if RANK == 0:
            ask("unpublish_name service=s")
            ask("unpublish_name service=s", rc="-1")
        ask("barrier_in")
        ask("lookup_name service=s", rc="-1")
        ask("barrier_in")


if HOW == "junk" and LAST:
    SOCKET.sendall(b"\0\xff\n")
    signal.pause()
ask("init pmi_version=1 pmi_subversion=1")
NAME = ask("get_my_kvsname")["kvsname"]
MAPPING = ask(f"get kvsname={NAME} key=PMI_process_mapping")["value"]
ask(f"put kvsname={NAME} key=of-{RANK} value={ROUND}-{RANK}")
if HOW == "die" and RANK == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if HOW == "flood":
    flood() if LAST else be_served()
ask("barrier_in")
for other in range(SIZE):
    value = ask(f"get kvsname={NAME} key=of-{other}")["value"]
    assert value == f"{ROUND}-{other}", (other, value)
share_names()
STREAM.write("cmd=finalize\n")
STREAM.flush()
assert answer()["cmd"] == "finalize_ack"
if HOW == "late" and LAST:
    SOCKET.sendall(b"hello\n")
    assert STREAM.readline() == ""
os.write(1, f"{RANK} {SIZE} {MAPPING} {NAME}\n".encode())
