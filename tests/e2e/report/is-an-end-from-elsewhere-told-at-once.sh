#!/bin/sh
# A run is ended from elsewhere, by ddpctl or by Ctrl-C on another node, and the
# workers take their time to stop. Does each launcher say at once who ended the
# run, and that workers are being stopped?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

port=$(free_port)
daemon d "$port"
run()
{
    nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$port" \
        --shutdown_timeout=5 "$WORKER" stubborn
    wait_round 1 2
    # shellcheck disable=SC2013 # pids
    for pid in $(sed -n 's/.* pid=\([0-9]*\) .*/\1/p' started); do
        eventually 30 grep -q '^SigIgn:.*[4-7c-f]...$' "/proc/$pid/status"
    done
}
run
ctl 0 "127.0.0.1:$port" end none
has '^run .none. ends: its 2 nodes are told to stop, and their launchers end with status 84$' \
    ctl.out
told="run 'none' ends: ended by ddpctl from 127.0.0.1; stopping the workers, in at most 5 s"
for name in a b; do
    wait_for "$told" $name.err
    none_marked $name && fail "$name has ended before its line"
done
all_end 84 a b
lines 1 'stopping the workers' a.err

: >started
run
kill -INT "$(pid_of b)"
wait_for "run 'none' ends: ended by signal 2 (SIGINT) on node .*; stopping the workers" \
    a.err
none_marked a && fail 'a has ended before its line'
all_end 130 a b
has_not "run 'none' ends" b.err # it said so itself
kill "$(pid_of d)"
ends_with 0 d
nothing_left
