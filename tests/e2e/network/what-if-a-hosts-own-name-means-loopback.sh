#!/bin/sh
# Debian lets a host's own name mean 127.0.1.1 on the host itself: do the other
# nodes reach it all the same, and is MASTER_ADDR one for all?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

network host other third
{ grep -v ' host$' hosts && echo '127.0.1.1 host'; } >hosts.host
for order in 'host other third' 'third other host'; do
    : >started
    nodes_on "$order" --nnodes=3 --nproc_per_node=2 \
        --rdzv_endpoint=host:29500 --max_restarts=1 "$WORKER" hold
    wait_round 1 6
    case $(values master 1) in
    10.77.0.[123]:*\ ) ;;
    *) fail "MASTER_ADDR and MASTER_PORT are $(values master 1)" ;;
    esac
    kill -KILL "$(worker_of 5 1)"
    wait_round 2 6
    same "$(values master 1)" "$(values master 2)" master
    kill -INT "$(pid_of other)"
    for machine in $order; do
        ends_with 130 $machine
    done
done
nothing_left
