#!/bin/sh
# Sixteen nodes of which eight are enough. Hosts lose their power in turn: the one
# that serves the rendezvous, one that does not, the one that serves in place of
# the first, and the one that serves in place of that. Do the others go on each
# time, in one round and without a charge?
# limit: 60
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

# serving: the machine of the newest server that node p has told of.
serving()
{
    sed -n 's/.*it is served at \([0-9.]*\):.*/\1/p' p.err | tail -n 1 |
        while read -r _addr; do
            sed -n "s/^$_addr //p" hosts
        done
}

alive='a b c d e f g h i j k l m n o p'
careful_worker
# shellcheck disable=SC2086 # words
network $alive
nodes_on "$alive" --nnodes=8:16 --max_restarts=1 \
    --rdzv_endpoint=a:29500 --rdzv_conf=heartbeat_timeout=2 ./careful
wait_world 16 0 30
left=16 served=
for who in serving any serving serving; do
    victim=$(serving)
    [ $who = serving ] || victim=i
    [ -n "$victim" ] || victim=a # that of the endpoint
    [ $who = any ] || case " $served " in
    *" $victim "*) fail "p has told of no server after $victim" ;;
    *) served="$served $victim" ;;
    esac
    alive=$(echo " $alive " | sed "s/ $victim / /")
    left=$((left - 1)) before=$ROUND
    kill_node "$victim"
    began=$(now_ms)
    wait_world $left "$before"
    took=$(began_after "$ROUND")
    measured "$victim ($who) lost: the other $left run again after $took ms"
    in_time 3000 "$took" 'the next round (heartbeat_timeout + 1 s)'
    same '0 ' "$(values restarts "$ROUND")" restarts
done
same 1 "$(sed -n 's/.*instance=\([^ ]*\).*/\1/p' started | sort -u | wc -l)" \
    instances
none_overlap
open_gate
for name in $alive; do ends_with 0 "$name"; done
for name in $served i; do end_of "$name"; done
nothing_left
