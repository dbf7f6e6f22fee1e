#!/bin/sh
# 200 workers on one node: does each get its own rank, and do all end?
. "${E2E_LIB:?is set by tests/e2e/run}/lib.sh"

began=$(now_ms)
node it --nproc_per_node=200 sh -c 'echo "rank $RANK of $WORLD_SIZE"'
ends_with 0 it 30
measured "200 workers that say one line: $(took) ms"
same "$(seq 0 199 | sed 's/.*/rank & of 200/')" "$(sort -k 2n it.out)" ranks
nothing_left
