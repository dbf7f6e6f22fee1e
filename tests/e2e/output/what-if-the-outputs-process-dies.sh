#!/bin/sh
# The process that the output passes through is killed or frozen: do the workers
# run on, does another one take over, is nothing left?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

relay_of()
{
    for pid in $(pgrep -P "$(agent_of it)"); do
        grep -qs eventpoll "/proc/$pid/fdinfo"/* 2>/dev/null || :
        for fd in "/proc/$pid/fd"/*; do
            case $(readlink "$fd") in
            *stdout.log) echo "$pid" && return ;;
            esac
        done
    done
}
# shellcheck disable=SC2016 # for the worker
node it --nproc_per_node=2 -r 1 --log_dir=log sh -c '
    i=0
    while [ ! -e "$E2E_DIR/enough" ]; do
        echo "line $i"
        echo "error $i" >&2
        i=$((i + 1))
        sleep 0.01
    done'
wait_for 'error 5$' it.err
relay=$(relay_of)
kill -KILL "${relay:?there is no relay}"
wait_for 'another one was started' it.err
wait_for 'error 40$' it.err
wait_for 'line 40$' "$(echo log/*/attempt_0/1/stdout.log)"
touch enough
ends_with 0 it
lines 0 'signal 13' it.err
nothing_left

# Frozen: the workers fill their pipes and wait, beats go on.
rm enough
node it --nproc_per_node=2 -r 1 --log_dir=log2 --rdzv_conf=heartbeat_timeout=1 \
    sh -c 'echo begun >>"$E2E_DIR/began"; until [ -e "$E2E_DIR/enough" ]; do
        echo more; echo more >&2; sleep 0.01; done'
eventually 30 has_lines 2 begun began || fail 'no start'
has_relay()
{
    relay=$(relay_of)
    [ -n "$relay" ]
}
eventually 30 has_relay || fail 'there is no relay'
kill -STOP "$relay"
sleep 1.5
touch enough
sleep 0.2
is_gone "$(pid_of it)" && fail 'it did not wait for its output'
kill -CONT "$relay"
ends_with 0 it
has_not 'killed' it.err
nothing_left
