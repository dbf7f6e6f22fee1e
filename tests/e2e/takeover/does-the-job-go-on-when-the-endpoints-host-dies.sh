#!/bin/sh
# Three nodes of which two are enough, and the first serves the rendezvous
# itself. All its processes are killed, or its machine is cut off without a word:
# do the other two go on, in a round of two and without a charge, and does nobody
# of the old round live then? When the cable is mended, is the third in the run
# again?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

careful_worker
network a b c
for how in kill cut; do
    : >started
    nodes_on "a b c" --rdzv_id=$how --nnodes=1:3 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2 ./careful
    wait_world 3
    same 1 "$ROUND" 'first round'
    began=$(now_ms)
    case $how in
    kill) kill_node a ;;
    cut) cut_off a ;;
    esac
    wait_world 2 1
    took=$(took_to "$ROUND")
    measured "host of the rendezvous lost ($how): the others run again after" \
        "$took ms"
    in_time 3000 "$took" 'the next round (heartbeat_timeout + 1 s)'
    same '0 ' "$(values restarts "$ROUND")" restarts
    for pid in $(workers_on a 1); do
        is_gone "$pid" || fail "worker $pid of the lost host lives"
    done
    if [ $how = cut ]; then
        heal a
        wait_world 3 "$ROUND" 30
    fi
    none_overlap
    open_gate
    for name in b c; do ends_with 0 $name; done
    [ $how = kill ] && end_of a || ends_with 0 a
    close_gate
    for name in a b c; do nothing_left $name; done
done
