#!/bin/sh
# --events: is there one first_beat for each round in which a worker beats, by
# the worker that was first, and none where nobody does?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# Rank 0 beats once the event of rank 1 is there, and rank 1 fails after that.
# shellcheck disable=SC2016 # for the worker
beats='
    case $DDP_ROUND-$RANK in
    1-1) echo 7 >"$DDP_PROGRESS_FILE"
        until [ -e both ]; do sleep 0.02; done
        sleep 0.15; exit 9 ;;
    1-0) until grep -qs first_beat events; do sleep 0.02; done
        echo 8 >"$DDP_PROGRESS_FILE"; : >both; exec sleep 10 ;;
    2-0) exit 9 ;;
    2-1) sleep 10 ;;
    3-0) echo on >"$DDP_PROGRESS_FILE" ;;
    esac'
launch 0 --nproc_per_node=2 --max_restarts=2 --events=events \
    --no_python sh -c "$beats"
lines 2 '"event":"first_beat"' events
lines 1 '"first_beat".*"round":1,"rank":1,.*"step":7}' events
lines 1 '"first_beat".*"round":3,"rank":0,' events
lines 0 '"first_beat".*"round":3.*"step"' events
launch 0 --nproc_per_node=2 --events=none true
lines 0 first_beat none
nothing_left
