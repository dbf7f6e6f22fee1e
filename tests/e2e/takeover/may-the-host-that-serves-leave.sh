#!/bin/sh
# Three nodes of which one is enough; the lines between them take 20 ms. The one
# that serves the rendezvous gets SIGTERM, then the one that serves in its place:
# does its server see the next round through before it ends, so that the others
# run at once each time, and does it end with 143?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

# leaves NAME, LEFT are left.
leaves()
{
    before=$ROUND
    began=$(now_ms)
    kill -TERM "$(pid_of "$1")"
    wait_world "$2" "$before"
    measured "who serves leaves: the others run again after" \
        "$(took_to "$ROUND") ms"
    in_time 1000 "$(took_to "$ROUND")" 'the next round'
    same '0 ' "$(values restarts "$ROUND")" restarts
    ends_with 143 "$1"
    nothing_left "$1"
}

careful_worker
network a b c
far b 20 0
far c 20 0
nodes_on "a b c" --nnodes=1:3 --max_restarts=1 --scale_interval=0 \
    --rdzv_endpoint=a:29500 ./careful
wait_world 3
leaves a 2
wait_for 'is served at' b.err
wait_for 'is served at' c.err
case $(sed -n 's/.*is served at \(10[0-9.]*\):.*/\1/p' c.err) in
10.77.0.2) next='b c' ;;
*) next='c b' ;;
esac
leaves "${next% *}" 1
none_overlap
open_gate
ends_with 0 "${next#* }"
nothing_left "${next#* }"
