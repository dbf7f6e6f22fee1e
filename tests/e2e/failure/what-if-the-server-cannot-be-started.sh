#!/bin/sh
# A user who may have just guard, janitor and agent: does the launch end soon,
# with a status of its own, and say which limit to raise?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

need_root 'to become somebody with few processes'
need_tools setpriv prlimit
no_look_for_leaks
uid=54324 # nobody else's: the limit is for all of a user's processes
chmod 711 "$E2E_WORK" "$E2E_DIR"
mkdir home && chown $uid home
for port in 0 "$(free_port)"; do
    began=$(now_ms)
    background it setpriv --reuid=$uid --regid=$uid --clear-groups \
        prlimit --nproc=3:3 env TMPDIR="$E2E_DIR/home" "$DDPRUN" \
        --rdzv_endpoint="127.0.0.1:$port" true
    ends_with 71 it 30
    measured "port $port: ended after $(took) ms"
    lines 1 'cannot start the rendezvous server: .*ulimit -u' it.err
    has_not 'firewall' it.err
done
nothing_left
