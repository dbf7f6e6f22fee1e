#!/bin/sh
# On a terminal: do workers still see one on stderr, are prefixes coloured unless
# NO_COLOR says no, and is a progress bar shown while it goes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
cat >term.py <<'PY'
"""Runs a command on a terminal of its own; copies what it shows to a file."""
import os, pty, sys
out = open(sys.argv[1], "wb", buffering=0)
def read(fd):
    data = os.read(fd, 65536)
    out.write(data)
    return data
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[2:], read)))
PY
export TERM=xterm
unset NO_COLOR
# shellcheck disable=SC2016 # for the worker
background it python3 term.py shown "$DDPRUN" --nproc_per_node=2 --tee=1 \
    --log_dir=log sh -c '[ -t 2 ] && echo "terminal $RANK"
    [ "$RANK" = 0 ] || exit 0
    printf "\r50 %%" >&2
    read -r line <"$E2E_DIR/gate"
    printf "\r100 %%\n" >&2'
wait_for '50 %' shown
lines 0 '100 %' shown
open_gate
ends_with 0 it
has 'terminal 0' shown
has "$(printf '\033\\[[0-9]*m\\[default1\\]:\033\\[0mterminal 1')" shown
has '100 %' shown
NO_COLOR=1
export NO_COLOR
background it python3 term.py shown "$DDPRUN" --tee=1 --log_dir=log echo plain
ends_with 0 it
has '^\[default0\]:plain' shown
