/*
 * core/inner/strikes: inside the rendezvous core: --node_strikes. A node whose
 * workers are the root cause of K charged failures in a row is set aside
 * (ASIDE) when the round is over: it gets no place in the rounds to come while
 * its cool-down runs, but where the fewest nodes would not be there without it.
 * Another node's failure begins the count anew. Nothing outside
 * rendezvous/core includes this.
 *
 * What a node has against it is told to it (world, waiting), and comes back
 * with its joins, so that a server which takes over knows it as well.
 */
#ifndef RENDEZVOUS_CORE_INNER_STRIKES_H
#define RENDEZVOUS_CORE_INNER_STRIKES_H

#include "rendezvous/core/inner/node.h"

void strikes_init(struct strikes *s, int max, int64_t cooldown_us);

/* Another instance of the run: nobody has anything against it. */
void strikes_forget(struct strikes *s);

/* How many failures in a row this node has against it. */
int strikes_of(const struct run *run, const struct node *n);

/* The failure that ended the round was charged: counts it against its node. */
void strikes_charge(struct rdzv *r, struct run *run);

/* The nodes of the next round gather, and none has workers: sets aside whoever
 * is due. */
void strikes_set_aside(struct rdzv *r, struct run *run);

/* Takes nodes back that were set aside, as far as too few are there. */
void strikes_recall(struct rdzv *r, struct run *run);

/* A node without workers that is to get a place: true where it was set aside
 * instead, since its cool-down runs. */
bool strikes_hold_back(struct rdzv *r, struct run *run, struct node *n);

/* What an unknown node tells of itself in its join; of its failures in a row
 * only a server that took its run over knows less. */
void strikes_believe(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     int64_t count,
                     int64_t aside_ms);

/* Gives a place to a node that has none; in join_place.h, which stands above
 * this. */
typedef void (*strikes_place)(struct rdzv *r, struct run *run, struct node *n);

/* Places those whose cool-down is over; their count begins anew. */
void strikes_tick(struct rdzv *r, struct run *run, strikes_place place);

/* When there is one to place; MONO_NEVER: none. */
int64_t strikes_deadline(const struct run *run);

#endif
