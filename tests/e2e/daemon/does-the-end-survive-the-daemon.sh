#!/bin/sh
# The daemon is killed when it has told one node that the run is over and
# cannot have told the other, which is cut off: does the first one stay until
# the next daemon knows, and do both end well?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other third
daemon_on_third()
{
    background_on third "$1" "$DDPRDZVD" --listen=10.77.0.3:29400
    wait_for 'serving on port' "$1.err"
}

cat >mine <<'MINE'
#!/bin/sh
"$E2E_LIB/worker" exit 0
read -r _ <"$E2E_DIR/gate.${E2E_MARK##*:}"
exit 0
MINE
chmod +x mine
mkfifo gate.host gate.other
daemon_on_third one
nodes_on "host other" --nnodes=2 --rdzv_endpoint=third:29400 \
    --rdzv_conf=heartbeat_timeout=1,reconnect_timeout=20 ./mine
wait_round 1 2
echo >gate.other
wait_for 'done node=other' one.err
cut_off other
echo >gate.host
wait_for 'ended: status 0' one.err
kill -KILL "$(pid_of one)" # half a second is the most that it waits
ends_with 137 one
sleep 1
is_gone "$(pid_of host)" && fail 'the node that knows has left'
heal other
daemon_on_third two
ends_with 0 host
ends_with 0 other 30
lines 2 '^round=' started
