#!/bin/sh
# Nine nodes. The host that serves the rendezvous and those that are next in the
# order of places are lost at once: their machines fall silent, or all their
# processes are killed. Do the five that are left meet, within heartbeat_timeout +
# 1 s, however many silent places stand before theirs?
# limit: 90
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

lost='a b c d' rest='e f g h i'

careful_worker
network a b c d e f g h i
for how in cut kill; do
    : >started
    : >begun
    nodes_on "$lost $rest" --rdzv_id=$how --nnodes=5:9 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=1 ./careful
    wait_world 9
    first=$ROUND
    began=$(now_ms)
    case $how in
    kill)
        # shellcheck disable=SC2046 # pids
        kill -KILL $(for name in $lost; do marked "$name"; done)
        ;;
    cut) for name in $lost; do cut_off "$name"; done ;;
    esac
    wait_world 5 "$first"
    took=$(began_after "$ROUND")
    measured "four of nine lost, the serving host and the next ones ($how):" \
        "the others run again after $took ms"
    in_time 2000 "$took" 'the next round (heartbeat_timeout + 1 s)'
    same '0 ' "$(values restarts "$ROUND")" restarts
    none_overlap
    open_gate
    for name in $rest; do ends_with 0 "$name"; done
    for name in $lost; do
        [ $how = kill ] || kill -TERM "$(pid_of "$name")"
        end_of "$name"
        heal "$name"
    done
    close_gate
    nothing_left
done
