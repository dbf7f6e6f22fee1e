#!/bin/sh
# Do the ranks of three nodes of two workers, and of nodes of one and three, find
# each other's keys and names by PMI, and which ranks share a node? Is a name gone
# for all once a rank of another node has withdrawn it? If one is killed
# while the others wait in the barrier, does the next round have keys of its own?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"
. "$E2E_LIB/pmi.sh"

argument=
size=6 mapping='(vector,(0,3,2))' round=1
world 2 2 2
size=4 mapping='(vector,(0,1,1),(1,1,3))' round=1
world 1 3
argument=die
size=4 mapping='(vector,(0,2,2))' round=2
world 2 2
