#!/bin/sh
# A terminal of another user (su, sudo) cannot be opened anew, so as not to wait
# for it. When nobody reads it, do workers, log files, beats and orders to end go
# on, and does the terminal get everything once it is read?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
command -v setpriv >/dev/null || skip 'needs setpriv'
cat >foreign.py <<'PY'
"""Becomes a command whose output goes to a terminal that it may not open. What
comes there is read, into the file `shown`, once the file `read` is there.

The kernel (seen with Linux 6.18) can leave what write(2) has taken in the
terminal, though its reader waits, until somebody writes to the terminal again;
what is there at the last close is lost. A shell's prompt would move it; here it
is a newline now and then, from the file `ended_it` on until `over` is there."""
import os, signal, sys, time
terminal, end = os.openpty()
name = os.ttyname(end)
if os.geteuid() == 0:
    os.fchown(end, 65534, -1)
os.fchmod(end, 0)
if os.fork() == 0:
    os.close(end)
    while not os.path.exists("read"):
        time.sleep(0.02)
    with open("shown", "wb", buffering=0) as shown:
        try:
            while True:
                shown.write(os.read(terminal, 65536))
        except OSError:  # all have closed it
            os._exit(0)
if os.fork() == 0:
    os.close(terminal)
    while not os.path.exists("over"):
        if os.path.exists("ended_it"):
            os.write(end, b"\n")
        time.sleep(0.05)
    os._exit(0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
os.dup2(end, 1)
os.dup2(end, 2)
command = sys.argv[1:]
if os.geteuid() == 0:
    command = ["setpriv",
        "--bounding-set=-dac_override,-dac_read_search"] + command
os.execvp(command[0], command)
PY
if [ "$(id -u)" = 0 ]; then
    setpriv --bounding-set=-dac_override true || skip 'no rights can be dropped'
fi
export NO_COLOR=1
talk='yes "a line of some length, to fill what can be filled" | head -n 20000'

# A lease of a second: an agent that waits for the terminal would lose it, and
# its workers with it.
background it python3 foreign.py "$DDPRUN" --nproc_per_node=2 --nnodes=1:2 \
    --rdzv_endpoint="127.0.0.1:$(free_port)" --tee=3 --log_dir=log \
    --rdzv_conf=heartbeat_timeout=1,last_call_timeout=0 \
    sh -c "echo begun >>begun; $talk; $talk >&2; echo ended >>ended; sleep 2"
eventually 30 has_lines 2 ended ended || fail 'the terminal holds workers up'
for stream in stdout stderr; do
    same $((2 * 20000 * 50)) "$(cat log/*/attempt_0/*/$stream.log | wc -c)" \
        "bytes in the files of $stream"
done
sleep 1
: >read
ends_with 0 it
lines 2 begun begun
: >ended_it
shown='^\[default[01]\]:a line of some .* filled.$'
eventually 30 has_lines 80000 "$shown" shown
: >over
nothing_left
same 80000 "$(grep -c "$shown" shown)" 'lines that a late reader gets'

# Nobody ever reads, and a worker waits for the terminal.
rm read
background it python3 foreign.py "$DDPRUN" --nproc_per_node=1 \
    sh -c "echo 'round=1 ' >>started; $talk >&2; echo ended >>ended"
wait_round 1 1
sleep 0.5
lines 2 ended ended
kill -TERM "$(pid_of it)"
sleep 0.3
kill -TERM "$(pid_of it)"
ends_with 143 it 30
: >read
nothing_left
