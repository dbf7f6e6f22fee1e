"""A rank that speaks PMI-1 without an MPI library, over any number of nodes.

It puts a key, waits in a barrier, gets what each other rank has put, and prints
"RANK SIZE MAPPING KVSNAME". usage: pmi_client.py [die]: rank 1 is killed in the
first round once it has put its key.
"""
import os
import signal
import socket
import sys

RANK, SIZE = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
STREAM = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw")


def ask(command):
    STREAM.write(f"cmd={command}\n")
    STREAM.flush()
    words = dict(w.split("=", 1) for w in STREAM.readline().split())
    assert words["rc"] == "0", (command, words)
    return words


ask("init pmi_version=1 pmi_subversion=1")
NAME = ask("get_my_kvsname")["kvsname"]
MAPPING = ask(f"get kvsname={NAME} key=PMI_process_mapping")["value"]
ask(f"put kvsname={NAME} key=of-{RANK} value={os.environ['DDP_ROUND']}-{RANK}")
if sys.argv[1:] == ["die"] and (RANK, os.environ["DDP_ROUND"]) == (1, "1"):
    os.kill(os.getpid(), signal.SIGKILL)
ask("barrier_in")
for other in range(SIZE):
    value = ask(f"get kvsname={NAME} key=of-{other}")["value"]
    assert value == f"{os.environ['DDP_ROUND']}-{other}", (other, value)
if RANK == SIZE - 1:
    ask("publish_name service=s port=p")
ask("barrier_in")
assert ask("lookup_name service=s")["port"] == "p"
ask("finalize")
os.write(1, f"{RANK} {SIZE} {MAPPING} {NAME}\n".encode())
