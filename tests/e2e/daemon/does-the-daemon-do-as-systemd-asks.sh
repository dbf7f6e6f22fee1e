#!/bin/sh
# With a manager that is played by a script: is it told that the daemon is
# ready, lives, stops and what it does; does the daemon serve on a socket that
# it is passed; is the unit file one that systemd takes?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
port=$(free_port)
cat >manager.py <<'PY'
import os, socket, sys, time
port, token, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind("\0" + token)
listener = socket.create_server(("127.0.0.1", port))
pid = os.fork()
if pid == 0:
    os.dup2(listener.fileno(), 3, inheritable=True)
    os.environ.update(NOTIFY_SOCKET="@" + token, WATCHDOG_USEC="300000",
                      WATCHDOG_PID=str(os.getpid()), LISTEN_FDS="1",
                      LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="x")
    os.execv(program[0], program)
listener.close()
print("pid", pid, flush=True)
notify.settimeout(0.1)
while True:
    try:
        for line in notify.recv(4096).decode().split("\n"):
            print("%.1f" % time.monotonic(), line, flush=True)
    except TimeoutError:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            break
PY
background m python3 manager.py "$port" "ddprun-e2e-$$" "$DDPRDZVD" \
    --listen=127.0.0.1:1
wait_for READY=1 m.out
wait_for "serving on port $port" m.err
wait_for 'STATUS=0 runs, 0 nodes' m.out
nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" "$WORKER" gate
wait_round 1 2
wait_for 'STATUS=1 run, 2 nodes' m.out
eventually 30 has_lines 10 WATCHDOG=1 m.out ||
    fail 'the watchdog is not fed three times as often as it asks for'
open_gate
all_end 0 a b
kill -TERM "$(sed -n 's/^pid //p' m.out)"
ends_with 0 m
has STOPPING=1 m.out
# A socket that does not fit is an error and no other port is opened.
# shellcheck disable=SC2016 # for the inner shell
background bad sh -c 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" --listen=127.0.0.1:0' \
    "$DDPRDZVD" 3</dev/null
ends_with 78 bad
has 'something else than a listening TCP socket' bad.err

command -v systemd-analyze >/dev/null || exit 0
mkdir units
scripts=$E2E_LIB/../../../scripts
sed "s,@BINDIR@,$E2E_BIN," "$scripts/ddprdzvd.service.in" \
    >units/ddprdzvd.service
cp "$scripts/ddprdzvd.socket" units
systemd-analyze --man=no verify units/ddprdzvd.service units/ddprdzvd.socket \
    >verify.err 2>&1 || fail 'systemd does not take the units'
[ ! -s verify.err ] || fail 'systemd finds fault with the units'
