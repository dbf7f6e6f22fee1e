#!/bin/sh
# Eight nodes of which five are enough, and the first serves the rendezvous. It
# and two more are lost at once: all their processes are killed, or their
# machines fall silent. Do the five go on, in time and without a charge? That two
# of them died only the server knew, which is dead: their leases are waited for in
# either case.
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

lost='a c f' rest='b d e g h'

careful_worker
network a b c d e f g h
for how in kill cut; do
    : >started
    : >begun
    nodes_on "$lost $rest" --rdzv_id=$how --nnodes=5:8 --max_restarts=1 \
        --scale_interval=0 --rdzv_endpoint=a:29500 \
        --rdzv_conf=heartbeat_timeout=2 ./careful
    wait_world 8
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
    measured "three of eight lost, the serving host among them ($how):" \
        "the others run again after $took ms"
    in_time 3000 "$took" 'the next round (heartbeat_timeout + 1 s)'
    same '0 ' "$(values restarts "$ROUND")" restarts
    for name in $lost; do
        same '' "$(ranks_on "$name" "$ROUND")" "ranks of $name, which is lost"
        for pid in $(workers_on "$name" "$first"); do
            is_gone "$pid" || fail "worker $pid of $name, which is lost, lives"
        done
    done
    # Three of eight can go on nowhere.
    sleep 1
    same "$ROUND" "$(newest_round)" 'newest round'
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
