#include "worker_rt/snapshot/mirror_pairs.h"

#include <stdlib.h>

#include "rendezvous/base/stop_page.h"
#include "worker_rt/snapshot/snapshot.h"

/* Of the two ranks that meet, one keeps mirrors of all others that it meets,
 * and so may the other. */
_Static_assert(2 * SNAPSHOT_MIRRORED_MAX + 1 <= 32, "a bit for each turn");

/* A place in the ring. */
struct seat {
    int64_t node;
    int rank;
};

static int by_node(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The largest node, of equal ones the first: where it begins, and its ranks. */
static int find_largest(const struct seat *ring, int world, int *begin)
{
    int most = 0, end;
    for (int i = 0; i < world; i = end) {
        for (end = i + 1; end < world && ring[end].node == ring[i].node;)
            end++;
        if (end - i > most) {
            most = end - i;
            *begin = i;
        }
    }
    return most;
}

/* The seat to which that one sends. */
static int receiver_of(int seat, int world, int begin, int largest)
{
    int others = world - largest;
    int ahead = (seat - begin + world) % world; /* of the largest's first */
    if (largest <= others)
        return (seat + largest) % world;
    if (ahead < largest)
        return (begin + largest + ahead % others) % world;
    return begin + ahead - largest;
}

/* Each pair takes the first turn that is free for both. */
static void deal_turns(struct mirror_pair *pairs, int world, uint32_t *taken)
{
    for (int r = 0; r < world; r++) {
        uint32_t *a = &taken[r], *b = &taken[pairs[r].to];
        while (((*a | *b) >> pairs[r].turn & 1) != 0)
            pairs[r].turn++;
        *a |= UINT32_C(1) << pairs[r].turn;
        *b |= UINT32_C(1) << pairs[r].turn;
    }
}

static void make(struct seat *ring,
                 int world,
                 uint32_t *received,
                 struct mirror_pair *pairs,
                 int *most)
{
    int begin = 0, largest = find_largest(ring, world, &begin);
    *most = 0;
    if (largest == world)
        return;
    for (int i = 0; i < world; i++) {
        int to = ring[receiver_of(i, world, begin, largest)].rank;
        pairs[ring[i].rank] = (struct mirror_pair){.to = to};
        int n = (int)++received[to];
        *most = n > *most ? n : *most;
    }
    for (int r = 0; r < world; r++)
        received[r] = 0;
    if (*most <= SNAPSHOT_MIRRORED_MAX)
        deal_turns(pairs, world, received);
}

int mirror_pairs_make(const int64_t *nodes,
                      int world,
                      struct mirror_pair *pairs,
                      int *most,
                      struct ddp_err *err)
{
    struct seat *ring = calloc((size_t)world, sizeof(*ring));
    uint32_t *room = calloc((size_t)world, sizeof(*room)); /* of each rank */
    int rc = ring == NULL || room == NULL ? snapshot_no_memory(err) : 0;
    for (int r = 0; rc == 0 && r < world; r++)
        ring[r] = (struct seat){nodes[r], r};
    if (rc == 0) {
        qsort(ring, (size_t)world, sizeof(*ring), by_node);
        make(ring, world, room, pairs, most);
    }
    free(ring);
    free(room);
    return rc;
}
