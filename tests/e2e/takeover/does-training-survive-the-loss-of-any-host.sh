#!/bin/sh
# Three machines train and a fourth one is a spare; one of them serves the
# rendezvous. A random schedule of faults, of which half strike the machine that
# serves just then: its power, its launcher, its cable. Each fault comes when the
# job is whole again: a job that loses two of three hosts at once is lost. Is the
# result that of a run that nobody disturbed, to the bit, is nothing left, and does
# no fault cost more than one of its kind may? At MTBF=60 and above: are 95 % of
# the steps kept that the time allowed (lib/cost_of_faults.py)? `make soak` plays
# it at length.
# limit: 300
# long: random faults for a while
# alone: it measures what a fault costs
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

names='a b c d' members='a b c' ranks=3
spare=yes calm=yes daemon='' endpoint=a:29500
growth=20 # a server that takes the others in has more
options='--nnodes=3 --nproc_per_node=1'
mix='host-power host-power host-power host-agent host-agent host-agent host-cut
    host-cut worker segv power both agent guard leave cut'
keeps=${KEEPS:-95}
MINUTES=${MINUTES:-0.3} MTBF=${MTBF:-3}

. "$E2E_LIB/random_faults.sh"
soak
