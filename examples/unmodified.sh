#!/bin/sh
# Any program can be a worker: awk, which knows nothing of ddprun, four times,
# each on its own quarter of the numbers to 1000.
# usage: examples/unmodified.sh [DDPRUN]
"${1:-ddprun}" --standalone --nproc_per_node=4 awk 'BEGIN {
    rank = ENVIRON["RANK"]; world = ENVIRON["WORLD_SIZE"]
    for (i = rank; i <= 1000; i += world)
        sum += i
    printf "rank %d of %d: %d\n", rank, world, sum
}'
