#!/bin/sh
# Is a killed worker named as the cause where a peer that saw its connection
# break ended first?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

# Rank 1 dies 5 ms after its peer said so by status 77; no SIGTERM stops it.
# shellcheck disable=SC2016 # for the worker
launch 137 --nproc_per_node=3 sh -c '
    case $RANK in
    0) exec sleep 300 ;;
    1) trap "" TERM; : >dying; until [ -e seen ]; do :; done
        sleep 0.005; kill -KILL $$$$ ;;
    2) until [ -e dying ]; do :; done; : >seen; exit 77 ;;
    esac'
has 'rank 1 on .*: signal 9 (SIGKILL)' it.err

# A death that comes much later is not the cause of what came first.
rm -f dying seen
# shellcheck disable=SC2016 # for the worker
launch 5 --nproc_per_node=2 sh -c '
    case $RANK in
    0) trap "" TERM; : >dying; until [ -e seen ]; do :; done
        sleep 0.5; kill -KILL $$$$ ;;
    1) until [ -e dying ]; do :; done; : >seen; exit 5 ;;
    esac'
has 'rank 1 on .*: exit code 5' it.err
