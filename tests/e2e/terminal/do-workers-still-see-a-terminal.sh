#!/bin/sh
# On a terminal: do workers still see one on stdout and on stderr, of the same
# size, also if the window gets another one; are prefixes coloured unless NO_COLOR
# says no, and is a progress bar shown while it goes? With --stdout=inherit, is
# stdout that terminal itself?
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

# Both streams as they are, and a bar on each of them.
rm gate && mkfifo gate
for fd in 1 2; do
    rm shown
    # shellcheck disable=SC2016
    background it python3 term.py shown "$DDPRUN" --nproc_per_node=2 sh -c '
        [ -t 1 ] && [ -t 2 ] && echo "both $RANK"
        [ "$RANK" = 0 ] || exit 0
        printf "\r50 %%" >&'$fd'
        read -r line <"$E2E_DIR/gate"
        printf "\r100 %%\n" >&'$fd
    wait_for '50 %' shown
    lines 0 '100 %' shown
    echo >gate
    ends_with 0 it
    has 'both 0' shown
    has 'both 1' shown
    has '100 %' shown
done
background it python3 term.py shown "$DDPRUN" --stdout=inherit \
    sh -c 'tty; readlink /proc/self/fd/1 /proc/self/fd/2'
ends_with 0 it
tr -d '\r' <shown >three
same "$(sed -n 1p three)" "$(sed -n 2p three)" 'the terminal that is inherited'
[ "$(sed -n 1p three)" != "$(sed -n 3p three)" ] || fail 'stderr is inherited'

# The window gets another size: the terminal of the workers does, too, and they
# hear of it by SIGWINCH.
cat >window.py <<'PY'
"""Runs a command on a terminal of its own; makes the window larger once the
file `ready` is there."""
import fcntl, os, pty, struct, sys, termios, time
def size(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ,
                struct.pack("HHHH", rows, columns, 0, 0))
pid, terminal = pty.fork()
if pid == 0:
    size(2, 24, 80)
    os.execvp(sys.argv[1], sys.argv[1:])
while not os.path.exists("ready"):
    time.sleep(0.02)
size(terminal, 50, 132)
try:
    while os.read(terminal, 65536):
        pass
except OSError:  # all have closed it
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
# shellcheck disable=SC2016
background it python3 window.py "$DDPRUN" --nproc_per_node=2 sh -c '
    trap "{ stty size <&1; stty size <&2; } | uniq >after.$RANK" WINCH
    { stty size <&1; stty size <&2; } | uniq >before.$RANK
    [ "$RANK" = 0 ] || until [ -s before.0 ]; do sleep 0.05; done
    [ "$RANK" = 0 ] || : >ready
    until [ -s after.$RANK ]; do sleep 0.05; done'
ends_with 0 it
for rank in 0 1; do
    same '24 80' "$(cat before.$rank)" "size that rank $rank begins with"
    same '50 132' "$(cat after.$rank)" "size that rank $rank gets"
done
