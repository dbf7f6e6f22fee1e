#!/bin/sh
# A user who may have 24 processes starts ten workers, and then forty: do
# ten run, and does the launch of forty say what it lacked, end with a status of
# its own, on all nodes, and leave nothing?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_root 'to become somebody with few processes'
need_tools setpriv prlimit
uid=54323 # nobody else's: the limit is for all of a user's processes
chmod 711 "$E2E_WORK" "$E2E_DIR"
mkdir home && chown $uid home
launch_limited()
{
    _name=$1
    shift
    background "$_name" setpriv --reuid=$uid --regid=$uid --clear-groups \
        prlimit --nproc=24:24 env TMPDIR="$E2E_DIR/home" "$DDPRUN" "$@"
}
launch_limited it --nproc_per_node=10 sh -c 'exec sleep 0.2'
ends_with 0 it
port=$(free_port)
node a --nnodes=2 --nproc_per_node=1 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" sleep 300
wait_listener "$port"
launch_limited it --nnodes=2 --nproc_per_node=40 --max_restarts=1 \
    --rdzv_endpoint="127.0.0.1:$port" sleep 300
all_end 71 it a
has 'Resource temporarily unavailable\|resource temporarily unavailable' it.err
nothing_left
