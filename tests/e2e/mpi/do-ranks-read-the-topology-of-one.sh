#!/bin/sh
# Does each rank get the path of one topology, in this round and in the next, and can it
# read it? Is there none, with no word, if libhwloc cannot be loaded or crashes, and is
# it not loaded without --mpi=pmi1 and auto?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
command -v python3 >/dev/null || skip 'needs python3'

cat >rank <<'END'
#!/usr/bin/env python3
import os, socket, sys
stream = socket.socket(fileno=int(os.environ["PMI_FD"])).makefile("rw")
def ask(command):
    stream.write(f"cmd={command}\n")
    stream.flush()
    return dict(word.split("=", 1) for word in stream.readline().split())
ask("init pmi_version=1 pmi_subversion=1")
path = ask("get key=PMI_hwloc_xmlfile")["value"]
text = open(path).read() if path != "unknown" else "none"
os.write(1, f"{os.environ['DDP_ROUND']} {text} {path}\n".encode())
ask("barrier_in")
if os.environ["DDP_ROUND"] == "1" and os.environ["RANK"] == "1":
    sys.exit(3)
ask("finalize")
END
chmod +x rank

# The libraries of tests/lib.
LD_LIBRARY_PATH=$E2E_BIN
export LD_LIBRARY_PATH
launch 0 --mpi=pmi1 --nproc_per_node=3 --max_restarts=1 ./rank
lines 3 '^1 <topology/> /proc/' it.out
lines 3 '^2 <topology/> /proc/' it.out
same 1 "$(cut -d ' ' -f 3 it.out | sort -u | wc -l)" 'paths'
nothing_left

FAKE_HWLOC=die launch 0 --mpi=pmi1 --nproc_per_node=2 --max_restarts=1 ./rank
lines 4 '^[12] none unknown$' it.out
mkdir broken
: >broken/libhwloc.so.15
LD_LIBRARY_PATH=$PWD/broken
launch 0 --mpi=pmi1 --nproc_per_node=2 --max_restarts=1 ./rank
lines 4 '^[12] none unknown$' it.out
has_not 'hwloc' it.err
nothing_left

LD_LIBRARY_PATH=$E2E_BIN FAKE_HWLOC_LOADED=$PWD/loaded
export FAKE_HWLOC_LOADED
for mpi in none pmix auto; do
    launch 0 --mpi=$mpi --nproc_per_node=1 sleep 0.5
    [ $mpi = auto ] || [ ! -e loaded ] || fail "--mpi=$mpi loads libhwloc"
done
[ -e loaded ] || fail '--mpi=auto does not load libhwloc'
