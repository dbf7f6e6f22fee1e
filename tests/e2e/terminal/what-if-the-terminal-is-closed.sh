#!/bin/sh
# The terminal goes away (SIGHUP to what runs there), also while the launch is
# stopped by Ctrl-Z: does the launch end, and is nothing left?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/terminal.sh"

for pause in '' C-z; do
    : >started
    terminal tty
    enter tty "$DDPRUN --nproc_per_node=2 $WORKER hold"
    wait_round 1 2
    [ -z "$pause" ] || { keys tty C-z && wait_screen tty Stopped; }
    close_terminal tty
    nothing_left
done
