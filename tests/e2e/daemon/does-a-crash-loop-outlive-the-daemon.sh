#!/bin/sh
# --crash_loop=3 and a daemon that is killed when two rounds have failed: does
# the third failure end the job early? And does --scale_interval still hold for
# a node that comes to the next daemon?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

cat >fails <<'FAILS'
#!/bin/sh
echo "round=$DDP_ROUND" >>"$E2E_DIR/attempts"
[ "$DDP_ROUND" -lt 3 ] || read -r _ <"$E2E_DIR/gate"
exit 9
FAILS
chmod +x fails
port=$(free_port)
daemon one "$port"
node a --nnodes=1 --max_restarts=100 --crash_loop=3 \
    --rdzv_endpoint="127.0.0.1:$port" ./fails
wait_lines 1 '^round=3' attempts
kill -KILL "$(pid_of one)"
ends_with 137 one
wait_for 'connected to the rendezvous again' a.err
daemon two "$port"
open_gate
ends_with 68 a
lines 3 . attempts
nothing_left a

# The first late node comes to one daemon, the second to the next.
close_gate
start_node()
{
    node "$1" --rdzv_id=scale --nnodes=1:3 --scale_interval=60 \
        --rdzv_endpoint="127.0.0.1:$port" \
        --rdzv_conf=last_call_timeout=0 "$WORKER" gate
}
start_node b
wait_round 1 1
start_node c
wait_round 2 2
kill -KILL "$(pid_of two)"
ends_with 137 two
for name in b c; do
    wait_for 'connected to the rendezvous again' $name.err
done
daemon three "$port"
wait_for ': moved: ' three.err
start_node d
wait_for 'this node joins it in [0-9]* s' d.err
lines 0 '^round=3' started
open_gate
all_end 0 b c
# It never had a place.
ends_with 85 d
kill "$(pid_of three)"
end_of three
nothing_left
