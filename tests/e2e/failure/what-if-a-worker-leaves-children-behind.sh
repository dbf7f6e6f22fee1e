#!/bin/sh
# Workers end with 0 and leave daemons behind: are these gone when the launcher
# ends, and does nobody wait for them?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

began=$(now_ms)
{ "$DDPRUN" --nproc_per_node=2 sh -c '
    setsid -f sleep 300
    (sleep 300 &)
    exit 0' || fail "status $?"; } | cat
[ $(took) -lt 20000 ] || fail 'the pipe was held open'
launch 0 --nproc_per_node=2 sh -c 'setsid -f sleep 300; (sleep 300 &); exit 0'
same '' "$(marked)" 'processes that are left'
