/*
 * worker_rt/snapshot/mirror_pairs: which rank of another node keeps mirrors of
 * a rank's images. Pure: all ranks come to the same pairs.
 *
 * The rule. The ranks stand in a ring, node behind node. If no node has more
 * ranks than all others together, each rank sends to the rank that stands as
 * far ahead as the largest node has ranks: where all nodes have as many, that
 * is the rank of the same place on the next node. So each rank receives from
 * one. Else the ranks of the largest node are dealt out to the others in turn,
 * and each of those sends to a rank of the largest node.
 */
#ifndef WORKER_RT_SNAPSHOT_MIRROR_PAIRS_H
#define WORKER_RT_SNAPSHOT_MIRROR_PAIRS_H

#include <stdint.h>

#include "rendezvous/base/err.h"

/* Of a rank, as sender. */
struct mirror_pair {
    int to;   /* the rank that keeps its mirrors */
    int turn; /* when the two meet: in one turn a rank meets one other at most,
               * and turns are few, also where the ring is long */
};

/*
 * nodes[r] is the node of rank r. `*most` becomes how many ranks a rank keeps
 * mirrors of, at most. Of more than SNAPSHOT_MIRRORED_MAX there are no turns;
 * of 0, since there is one node only, no pairs. NOMEM.
 */
int mirror_pairs_make(const int64_t *nodes,
                      int world,
                      struct mirror_pair *pairs,
                      int *most,
                      struct ddp_err *err);

#endif
