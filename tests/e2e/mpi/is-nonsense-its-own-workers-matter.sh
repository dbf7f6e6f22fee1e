#!/bin/sh
# Over two nodes: does a rank that floods its launcher, reads no answer and writes half
# a line keep nobody waiting, and does nonsense after its finalize hurt nobody?
# Is one that writes nonsense in place of init named, and does the next round run?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/pmi.sh"

size=4 mapping='(vector,(0,2,2))' round=1
argument=flood
world 2 2
argument=late
world 2 2
argument=junk round=2
world 2 2
has 'rank 3: a PMI line with a NUL in it' n2.err
