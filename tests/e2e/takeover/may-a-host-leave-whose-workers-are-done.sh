#!/bin/sh
# The workers of the host that serves the rendezvous have ended well, and the others'
# go on. Then the host leaves, by a signal or because its agent is killed: does the
# next leader know that it was done, and leave the others' workers alone?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

cat >mine <<'MINE'
#!/bin/sh
[ "$RANK" -ne 0 ] || exec true
exec "$E2E_DIR/careful"
MINE
chmod +x mine
careful_worker
network a b c
for how in leaves dies; do
    : >started
    : >begun
    nodes_on "a b c" --rdzv_id=$how --nnodes=1:3 --max_restarts=1 \
        --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=2 ./mine
    for rank in 1 2; do
        eventually 10 grep -q "^round=1 rank=$rank " started || fail "no rank $rank"
    done
    sleep 1 # the server knows that rank 0 is done
    case $how in
    leaves) kill -TERM "$(pid_of a)" ;;
    dies) kill_agent a ;;
    esac
    for name in b c; do wait_for 'it is served at' $name.err; done
    sleep 3 # a lease, and more
    for name in b c; do has_not 'round 2\|round 1 is over' $name.err; done
    open_gate
    for name in b c; do ends_with 0 $name; done
    end_of a
    same 2 "$(grep -c . started)" 'workers that were started'
    close_gate
    nothing_left
done
