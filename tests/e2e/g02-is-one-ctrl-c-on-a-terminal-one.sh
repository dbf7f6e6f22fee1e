#!/bin/sh
# On a terminal: does Ctrl-C reach the launcher once, and the workers only
# through it? Can a worker not stop the job by reading the terminal?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3, for a terminal'
python3 -c 'import pty; pty.openpty()' 2>/dev/null ||
    skip 'no terminal can be made here'
cat >terminal.py <<'PY'
"""Runs a command on a terminal of its own, types Ctrl-C when the file `keys`
appears, once for each line in it, and ends with the command's status."""
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
typed = 0
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    if select.select([fd], [], [], 0.02)[0]:
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    want = os.path.exists("keys") and sum(1 for _ in open("keys"))
    if want and typed < want:
        os.write(fd, b"\x03")
        typed += 1
else:
    os.kill(pid, 9)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
background tty python3 terminal.py "$DDPRUN" --nproc_per_node=2 sh -c '
    trap "echo int >>$E2E_DIR/ints; exit 0" INT
    echo "round=1 " >>"$E2E_DIR/started"
    cat
    read line <"$E2E_DIR/gate"'
wait_round 1 2
echo >keys
ends_with 130 tty
lines 2 int ints
lines 1 'once more kills them' tty.out
nothing_left

: >started
rm keys
background tty python3 terminal.py "$DDPRUN" --nproc_per_node=2 sh -c '
    trap "" INT TERM
    echo "round=1 " >>"$E2E_DIR/started"
    exec sleep 300'
wait_round 1 2
echo >keys
wait_for 'once more kills them' tty.out
echo >>keys
ends_with 130 tty 3
nothing_left
