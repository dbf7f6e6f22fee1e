#!/bin/sh
# All bytes between launcher and daemon, written down by a relay: is there a
# word to be read in them, and does saying them again get anybody in? Without a
# token, as a check of the relay, they can be read.
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
umask 077
make_token token
# through FILE [OPTION...]: a run of two nodes through the relay.
through()
{
    file=$1
    shift
    relayed=$(free_port)
    background "r_$file" python3 "$E2E_LIB/tap.py" "$relayed" "$port" "$file"
    wait_for ready "r_$file.out"
    nodes "a b" --nnodes=2 --rdzv_id=the-quick-brown-run \
        --rdzv_conf=is_host=0 --rdzv_endpoint="127.0.0.1:$relayed" "$@" \
        "$WORKER" exit 0
    all_end 0 a b
}
port=$(free_port)
daemon d "$port"
through plain
for word in the-quick-brown-run join world 127.0.0.1; do
    grep -aq -- $word plain || fail "the relay sees no $word without a token"
done
kill -TERM "$(pid_of d)"
ends_with 0 d
port=$(free_port)
background t "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token
wait_for 'serving on port' t.err
through sealed --rdzv_token_file=token
[ "$(wc -c <sealed)" -gt 1000 ] || fail 'nothing went through the relay'
for word in the-quick-brown-run join beat world kind 127.0.0.1 "$(cat token)"; do
    grep -aq -- $word sealed && fail "'$word' can be read with a token"
done
# The same bytes again.
lines 2 joined t.err
cat >replay.py <<'PY'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
s.sendall(open(sys.argv[2], "rb").read())
try:
    while s.recv(4096):
        pass
except ConnectionResetError:
    pass # as good an end
PY
background p python3 replay.py "$port" sealed.first
ends_with 0 p
wait_for 'connection from .* closed: the peer does not prove' t.err
lines 2 joined t.err
