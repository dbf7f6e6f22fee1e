/*
 * core/inner/state/shows: inside the rendezvous core: orders whose answer comes
 * from a node, in parts (ddpctl stacks). Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_SHOWS_H
#define RENDEZVOUS_CORE_INNER_STATE_SHOWS_H

#include "rendezvous/core/rdzv.h"

struct run;
struct node;

#define SHOWS_MAX 8 /* under way at a time */

struct show {
    int64_t number; /* of the order; 0: this place is free */
    int conn;       /* whose the order is */
    int node;
};

/* Asks the node for the stacks of its worker `local_rank`, on behalf of the
 * connection. False: as many orders as may be are under way. */
bool shows_begin(struct rdzv *r,
                 int conn,
                 const struct node *n,
                 int local_rank);

/* A part of an answer: goes to whom it is for. Its number is not 0. */
void shows_answered(struct rdzv *r,
                    const struct node *n,
                    const struct msg_answered *part);

/* A connection has ended. Returns whether it waited for an answer. */
bool shows_closed(struct rdzv *r, int conn);

#endif
