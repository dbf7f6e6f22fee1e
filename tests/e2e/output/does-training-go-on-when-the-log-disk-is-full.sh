#!/bin/sh
# The log disk is full for a while: do the workers run on, is it said once, and
# does the file tell what is missing?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"

small_disk disk 256k
for mode in --redirects=1 --tee=1; do
    : >said
    head -c 100000 /dev/zero >disk/filler
    # shellcheck disable=SC2016 # for the worker
    node it --nproc_per_node=2 $mode --log_dir=disk sh -c '
        head -c 1000000 /dev/zero | tr "\0" "a" | fold -w 99
        echo written >>"$E2E_DIR/said"
        read -r line <"$E2E_DIR/gate"
        echo "room again"'
    eventually 30 has_lines 2 written said || fail "$mode: workers are held up"
    lines 1 'cannot write to .*/0/stdout.log: No space left' it.err
    sleep 0.3 # for what is still in the pipes
    rm disk/filler
    open_gate
    ends_with 0 it
    close_gate
    has 'bytes are missing here' disk/*/attempt_0/0/stdout.log
    same 'room again' "$(tail -n 1 disk/*/attempt_0/0/stdout.log)" 'last line'
    rm -r disk/*
done
