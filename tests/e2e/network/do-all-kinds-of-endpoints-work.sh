#!/bin/sh
# Do names, numbers and IPv6 addresses all do as an endpoint, and is MASTER_ADDR
# then one that can be connected to?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

command -v python3 >/dev/null || skip 'needs python3'
# shellcheck disable=SC2016 # for the worker
ask='exec python3 "$E2E_LIB/tcpstore.py" "$MASTER_ADDR" "$MASTER_PORT" "$RANK"'
hosts="localhost 127.0.0.1 127.0.0.3"
[ -z "$(cat /proc/net/if_inet6 2>/dev/null)" ] || hosts="$hosts [::1]"
for host in $hosts; do
    port=$(free_port)
    node a --nnodes=2 --rdzv_endpoint="$host:$port" sh -c "$ask"
    node b --nnodes=2 --rdzv_endpoint="$host:$port" sh -c "$ask"
    all_end 0 a b
    has 'store ok' a.out
    has 'store ok' b.out
done
# On one node the launcher's own store, or none of its own.
node a sh -c "$ask"
ends_with 0 a
node a --worker_store=none --nproc_per_node=2 sh -c '
    [ "$TORCHELASTIC_USE_AGENT_STORE" = False ] && [ "$RANK" = 0 ] || exit 0
    exec python3 -c "import os, socket
s = socket.create_server((os.environ[\"MASTER_ADDR\"],
                          int(os.environ[\"MASTER_PORT\"])))"'
ends_with 0 a
nothing_left
