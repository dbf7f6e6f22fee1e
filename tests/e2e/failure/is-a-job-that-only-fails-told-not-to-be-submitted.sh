#!/bin/sh
# A job is submitted again and again, on two nodes, and fails each time. While each
# launch leaves a newer step on the disk its status is the worker's own. Is it 86 from
# the third launch in a row on that leaves none, with --crash_loop=3, on both nodes, and
# the worker's own without it?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

[ -x "$E2E_BIN/resubmitted" ] || skip 'resubmitted is not built: make e2e-programs'

# submit [OPTION...]: a launch.
submit()
{
    _port=$(free_port)
    rm -f ./*.out ./*.err
    nodes "a b" --nnodes=2 --rdzv_endpoint="127.0.0.1:$_port" \
        "$@" "$E2E_BIN/resubmitted"
}

# fails STEP [OPTION...]: one that finds that step, and ends with the worker's status.
fails()
{
    _step=$1
    shift
    submit "$@"
    all_end 7 a b
    lines 1 "^at step $_step\$" a.out
    has_not 'should not be submitted' a.err
    nothing_left a
    nothing_left b
}

loop=--crash_loop=3
: >works
fails -1 $loop
grep -q '^found -1 0$' kept/owner || fail 'the owner found no step'
fails 0 $loop
rm works
fails 1 $loop
fails 1 $loop
for launches in 3 4; do
    submit $loop
    all_end 86 a b
    for name in a b; do
        has "$launches launches of this job in a row left no newer step on the disk" \
            $name.err
        has 'exit status  *86' $name.err
        nothing_left $name
    done
done
fails 1
# What works again counts anew.
: >works
fails 1 $loop
rm works
fails 2 $loop
