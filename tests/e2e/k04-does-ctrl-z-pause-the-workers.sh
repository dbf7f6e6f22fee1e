#!/bin/sh
# Ctrl-Z in a shell with job control: does the launcher stop, do its workers,
# does the node keep its place in the job (the beats go on), and does all of it
# go on with fg?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3, for a terminal'
cat >terminal.py <<'PY'
"""An interactive shell on a terminal of its own; types the lines of the file
`type` as they come (^Z for Ctrl-Z)."""
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp("sh", ["sh", "-i", "-m"])
typed, deadline = 0, time.monotonic() + 25
while time.monotonic() < deadline:
    if select.select([fd], [], [], 0.02)[0]:
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    lines = open("type").read().split("\n")[:-1]
    for line in lines[typed:]:
        os.write(fd, b"\x1a" if line == "^Z" else line.encode() + b"\n")
        typed += 1
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
cat >pulse <<'PULSE'
#!/bin/sh
echo "round=1 pid=$$" >>"$E2E_DIR/started"
while [ ! -e "$E2E_DIR/over" ]; do
    echo >>"$E2E_DIR/pulse.$RANK"
    sleep 0.02
done
PULSE
chmod +x pulse

state_of() { sed 's/.*) \(.\).*/\1/' "/proc/$1/stat"; }
is_state() { [ "$(state_of "$1")" = "$2" ]; }
beats() { wc -l <pulse.0; }

: >type
background tty python3 terminal.py
echo "$DDPRUN --nproc_per_node=2 --rdzv_conf=heartbeat_timeout=0.5 ./pulse" >>type
wait_round 1 2
workers=$(sed -n 's/.*pid=//p' started)
guard=$(marked tty | while read -r pid; do
    grep -lsq '(ddprun) S' "/proc/$pid/stat" && echo "$pid"; done | sort -n | head -n 1)
for turn in 1 2; do
    echo '^Z' >>type
    for worker in $workers; do
        eventually 5 is_state "$worker" T || fail "worker $worker runs on"
    done
    eventually 5 is_state "$guard" T || fail 'the launcher does not stop'
    before=$(beats)
    sleep 1.2 # more than two leases
    same "$before" "$(beats)" 'what the worker did while it was stopped'
    # shellcheck disable=SC2016 # for that shell
    echo 'fg; echo status=$?' >>type
    eventually 5 sh -c "[ \$(wc -l <pulse.0) -gt $before ]" ||
        fail 'the worker does not go on'
done
touch over
wait_for 'status=0' tty.out
has_not 'killed' tty.out
lines 2 '^round=' started
echo exit >>type
end_of tty
nothing_left
