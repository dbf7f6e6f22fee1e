/*
 * core/inner/state/slow_ranks: inside the rendezvous core: the ranks of a run
 * that are slower than the others (core/slow). They are shown, and count for
 * --node_strikes (strikes.h). Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_SLOW_RANKS_H
#define RENDEZVOUS_CORE_INNER_STATE_SLOW_RANKS_H

#include "rendezvous/core/rdzv.h"
#include "rendezvous/core/slow.h"

struct node;
struct run;

/* Of the slowest rank of a node; all 0 when a round begins. */
struct slow_rank {
    struct slow_told told;
    int permille; /* it is slower by so much; 0: it is not slow */
    int64_t since_us;
};

/* The node of the rank that is slower than all others in the round that is, or
 * was the last; NULL: none is slow. */
const struct node *slow_ranks_slowest(const struct rdzv *r,
                                      const struct run *run);

/* A beat of a node in the round. */
void slow_ranks_beat(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_beat *b);

#endif
