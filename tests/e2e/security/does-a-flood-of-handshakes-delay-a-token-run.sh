#!/bin/sh
# Half handshakes, and whole ones with another token, as fast as a core makes
# them, at a daemon with a token that has few connections: do beats go on at
# heartbeat_timeout=1, and do nodes that have the token get in past them?
# limit: 60
# alone: one core floods, another one answers
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
umask 077
make_token token
make_token other
port=$(free_port)
background d "$DDPRDZVD" --listen="127.0.0.1:$port" --token_file=token \
    --max_connections=100 --open_metrics
wait_for 'serving on port' d.err
join()
{
    name=$1
    shift
    node "$name" --rdzv_endpoint="127.0.0.1:$port" --rdzv_token_file=token \
        --rdzv_conf=is_host=0,heartbeat_timeout=1 "$@"
}
for i in 1 2 3 4 5 6; do
    join node$i --nnodes=6 --max_restarts=1 "$WORKER" gate
done
wait_round 1 6
# What a launcher with another token says first.
cat >listen.py <<'PY'
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as s:
    print("ready", flush=True)
    c, _ = s.accept()
    with open("hello", "wb") as f:
        f.write(c.recv(4096))
PY
ear=$(free_port)
background ear python3 listen.py "$ear"
wait_for ready ear.out
node liar --nnodes=2 --rdzv_endpoint="127.0.0.1:$ear" \
    --rdzv_token_file=other --rdzv_conf=is_host=0 "$WORKER" hold
end_of ear
kill -TERM "$(pid_of liar)"
end_of liar
mkfifo go
flooded=$(date +%s)
for kind in tls hello; do
    background flood$kind sh -c 'exec python3 "$@" <go' sh \
        "$E2E_LIB/flood.py" 127.0.0.1 "$port" $kind hello
    exec 6>go
    wait_for begins flood$kind.out
    sleep 1
    for i in 1 2 3; do
        began=$(now_ms)
        join $kind$i --nnodes=1 --rdzv_id=$kind$i true
        ends_with 0 $kind$i 30
        took=$(took)
        measured "a node past the flood ($kind): $took ms"
        in_time 8000 "$took" 'a node past the flood'
    done
    exec 6>&-
    ends_with 0 flood$kind
done
# Whole handshakes came as far as that. Counted, since the log has two lines a
# second for all that is refused: which of them it has is chance.
# Who asks is a stranger as well, and may be turned away while the daemon has the
# last of the flood at its door.
has_metrics()
{
    python3 "$E2E_LIB/get.py" "$port" /metrics >metrics 2>metrics.err
}
eventually 10 has_metrics || fail 'no /metrics'
others=$(sed -n 's/^ddprun_connections_rejected_total{reason="token"} //p' metrics)
[ "${others:-0}" -ge 20 ] ||
    fail "${others:-none} of the flood were refused for their token"
measured "refused for their token: $others"
lines 6 '^round=' started
for i in 1 2 3 4 5 6; do
    has_not 'lost the connection' node$i.err
done
has_not 'lost' d.err
# Ten at once, and two a second: twice that, for the floods end by and by.
most=$((20 + 4 * ($(date +%s) - flooded)))
[ "$(grep -c 'connection from .* closed' d.err)" -le "$most" ] ||
    fail 'strangers fill the log'
open_gate
for i in 1 2 3 4 5 6; do
    ends_with 0 node$i
done
