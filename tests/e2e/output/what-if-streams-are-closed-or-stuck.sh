#!/bin/sh
# Standard streams that are closed, a stderr that nobody reads, a parent that
# ignores SIGCHLD: is a launch sound all the same?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# A socket of ours in the place of a standard stream would get our log lines.
for closed in 0 1 2 012; do
    case $closed in
    0) set -- sh -c 'exec "$@" <&-' ;;
    1) set -- sh -c 'exec "$@" >&-' ;;
    2) set -- sh -c 'exec "$@" 2>&-' ;;
    *) set -- sh -c 'exec "$@" <&- >&- 2>&-' ;;
    esac
    : >started
    background it "$@" sh "$DDPRUN" --nproc_per_node=2 --max_restarts=1 \
        "$WORKER" once 0 3
    wait_round 2 2
    open_gate
    ends_with 0 it
    nothing_left
    close_gate
done

# Nobody reads the pipe, and the workers have filled it: the agent must go on
# with its beats, or its workers are killed.
command -v python3 >/dev/null || skip 'needs python3'
cat >stuck.py <<'PY'
"""Runs a command with a stderr that is a full pipe which nobody reads."""
import fcntl, os, subprocess, sys
r, w = os.pipe()
fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)
try:
    while True:
        os.write(w, b"x" * 4096)
except BlockingIOError:
    pass
fcntl.fcntl(w, fcntl.F_SETFL, 0)
sys.exit(subprocess.run(sys.argv[1:], stderr=w).returncode)
PY
: >started
background it python3 stuck.py "$DDPRUN" --nproc_per_node=2 --nnodes=1:2 \
    --rdzv_endpoint="127.0.0.1:$(free_port)" \
    --rdzv_conf=heartbeat_timeout=1,last_call_timeout=0 --max_restarts=1 \
    "$WORKER" once 0 3
wait_round 2 2
sleep 2
lines 4 '^round=' started
open_gate
ends_with 0 it
nothing_left

# Children of such a parent are reaped by the kernel, unless they mind.
background it python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$DDPRUN" "$WORKER" exit 5
ends_with 5 it
nothing_left

# An answer that cannot be written is no success.
background it sh -c 'exec "$0" --help >/dev/full' "$DDPRUN"
ends_with 74 it
has 'No space left' it.err
