#!/bin/sh
# Two machines train under a random schedule of faults, one every MTBF seconds
# in the mean: is the result that of a run that nobody disturbed, to the bit, is
# nothing left, and does no fault cost more time or steps than one of its kind may
# (lib/cost_of_faults.py)? `make soak` plays it at length: MINUTES=, SEED=, MTBF=
# (several in turn, in quotes), KINDS= (of faults, instead of all). The lists of
# faults, of steps, and what all said go to the folder KEEP=.
# limit: 300
# long: random faults for a while
# alone: it measures what a fault costs
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/faults.sh"
. "$E2E_LIB/trainer.sh"

names='a b' members='a b' ranks=4
spare='' calm='' growth=5 daemon=yes endpoint=server:29500 keeps=
options='--nnodes=2 --nproc_per_node=2'
mix='worker worker worker worker worker segv segv hang agent agent guard guard
    both power power leave daemon daemon freeze cut cut mute deafen lose all'

. "$E2E_LIB/random_faults.sh"
soak
