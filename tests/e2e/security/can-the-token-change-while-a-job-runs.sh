#!/bin/sh
# A job runs with a token, and the daemon gets another one by SIGHUP, beside the
# first and then instead of it: do new jobs come in with the new token, does the
# old job run on and restart its workers, does a node of it that was cut off
# come back while both tokens are accepted, is the old token refused in the end,
# and is a bad file no harm?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'

umask 077
make_token old
make_token new
cp old token
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' d.err
incarnation()
{
    "$DDPCTL" --endpoint="127.0.0.1:$port" --token_file="$1" status --json |
        sed -n 's/.*"incarnation": *"\([0-9a-f]*\)".*/\1/p'
}
first=$(incarnation old)
[ -n "$first" ] || fail 'no status with the token'
# reads N PATTERN: the daemon reads the file again, and says so for the N-th time.
reads()
{
    kill -HUP "$(pid_of d)"
    wait_lines "$1" "$2" d.err
}
# job NAME TOKEN STATUS: a job of one node that ends at once.
job()
{
    node "$1" --rdzv_id="$1" --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_token_file="$2" true
    ends_with "$3" "$1" 30
}
# b reaches the daemon through a relay, so that its connection can be cut.
cat >relay.py <<'PY'
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
print("port", server.getsockname()[1], flush=True)
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass # it was cut
    b.close()
open_ones = []
def cut():
    for line in sys.stdin:
        open_ones[-1].shutdown(socket.SHUT_RDWR) # pump closes the other
        print("cut", flush=True)
threading.Thread(target=cut, daemon=True).start()
while True:
    a, _ = server.accept()
    b = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    open_ones.append(a)
    for pair in ((a, b), (b, a)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
PY
mkfifo scissors
background relay sh -c 'exec python3 relay.py "$1" <scissors' sh "$port"
exec 7>scissors
wait_for port relay.out
relayed=$(sed -n 's/^port //p' relay.out)
live()
{
    node "$1" --nnodes=2 --max_restarts=3 --rdzv_endpoint="127.0.0.1:$2" \
        --rdzv_conf=is_host=0 --rdzv_id=live --rdzv_token_file=old "$WORKER" gate
}
live a "$port"
live b "$relayed"
wait_round 1 2
job early new 78
has 'the token of this launcher differs' early.err

# A file that is no good changes nothing, and the daemon goes on.
echo short >token
reads 1 'too short.*the token as it was read before stays in use'
chmod 644 token
reads 1 'chmod 600.*the token as it was read before stays in use'
chmod 600 token
job still old 0

# Both: the new one first.
cat new >token
echo >>token
cat old >>token
reads 1 'token file token was read again: 2 tokens are accepted'
job first new 0
job second old 0
# A launcher and ddpctl that have both files' lines prove the first.
job both token 0
[ "$(incarnation token)" = "$first" ] || fail 'ddpctl does not speak with both'
echo cut >&7
wait_for '^cut' relay.out
wait_for ' back ' d.err
kill -KILL "$(worker_of 0 1)"
wait_round 2 2
lines 4 '^round=' started

# The new one alone. What is connected stays, what comes must have it.
cp new token
reads 1 'token file token was read again: 1 token is accepted'
job late old 78
has 'the token of this launcher differs' late.err
job last new 0
kill -KILL "$(worker_of 0 2)"
wait_round 3 2
[ "$(incarnation new)" = "$first" ] || fail 'the daemon was started again'
has_not 'lost' d.err
open_gate
all_end 0 a b
kill -TERM "$(pid_of d)"
ends_with 0 d
