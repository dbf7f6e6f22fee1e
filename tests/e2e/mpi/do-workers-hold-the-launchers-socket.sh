#!/bin/sh
# A launcher that srun --mpi=pmi2 has started has a PMI socket of its own: have its
# workers neither PMI_FD nor that descriptor?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >start.py <<'END'
import os, socket, sys
ours, theirs = socket.socketpair()
os.dup2(theirs.fileno(), 50)
os.environ["PMI_FD"] = "50"
os.execv(sys.argv[1], sys.argv[1:])
END
# shellcheck disable=SC2016 # the worker's
for option in --mpi=none --mpi=pmi1; do
    background it /usr/bin/python3 start.py "$DDPRUN" $option \
        --nproc_per_node=1 sh -c 'ls /proc/self/fd; echo "it is ${PMI_FD-none}"'
    ends_with 0 it
    has '^it is ' it.out
    has_not '^50$' it.out
    has_not '^it is 50$' it.out
done
