/*
 * core/ranks: numbering: the group ranks of the nodes of a round, and from
 * them the global and role ranks. Pure; sorts in place; no allocation.
 *
 * Group ranks:
 * - a node of the round before keeps its place; if the round got smaller,
 *   these nodes close ranks in their old order;
 * - a newcomer that asked for a place (--node_rank) gets it if it is free, the
 *   earlier of two askers winning;
 * - the others fill what is free, ordered by: the node that hosts the server
 *   first (so that MASTER_ADDR is the endpoint's host), then names compared
 *   naturally (node2 before node10), then arrival.
 *
 * Global ranks are contiguous per node in the order of group ranks.
 */
#ifndef RENDEZVOUS_CORE_RANKS_H
#define RENDEZVOUS_CORE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

/* One node of a round to be; the first block is given, the second is filled
 * in by ranks_assign. */
struct ranks_node {
    const char *name;
    const char *role;
    int asked;    /* --node_rank, or -1 */
    int previous; /* group rank in the round before, or -1 */
    bool hosts;   /* its launcher runs the server */
    int64_t arrival;
    int nproc;
    int id; /* the caller's own */

    int group_rank;
    int base_rank;
    int role_rank;
    int role_world;
};

/*
 * Numbers `nodes[0..n)` and leaves them sorted by group rank. `scratch` has
 * room for n nodes. Returns the world size. `*ignored` (may be NULL) gets the
 * number of asked-for ranks that could not be given (given twice, or >= n).
 */
int ranks_assign(struct ranks_node *nodes,
                 struct ranks_node *scratch,
                 int n,
                 int *ignored);

/* strcmp, but digits count as numbers: node2 < node10, node02 < node2. */
int ranks_natural_cmp(const char *a, const char *b);

#endif
