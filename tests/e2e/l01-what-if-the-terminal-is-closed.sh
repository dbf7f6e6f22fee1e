#!/bin/sh
# The terminal goes away (SIGHUP to what runs there), also while the launch is
# stopped by Ctrl-Z: does the launch end, and is nothing left?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3, for a terminal'
cat >terminal.py <<'PY'
"""Runs a command on a terminal, types what the first argument says when the
file `go` is there, and takes the terminal away half a second later."""
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-m", "-c", 'eval "$0"; exit 0', sys.argv[2]])
while not os.path.exists("go"):
    time.sleep(0.02)
os.write(fd, sys.argv[1].encode())
time.sleep(0.5)
os.close(fd)
PY
for keys in '' "$(printf '\032')"; do
    : >started
    rm -f go
    background tty python3 terminal.py "$keys" \
        "$DDPRUN --nproc_per_node=2 $WORKER hold"
    wait_round 1 2
    touch go
    end_of tty
    nothing_left
done
