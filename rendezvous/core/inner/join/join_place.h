/*
 * core/inner/join/join_place: inside the rendezvous core: what a node without
 * workers is given. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_JOIN_PLACE_H
#define RENDEZVOUS_CORE_INNER_JOIN_JOIN_PLACE_H

#include "rendezvous/core/inner/state/node.h"

/* Gives a place to a node that is in no round: it waits for the next one,
 * makes the round larger, or is a spare. */
void join_place(struct rdzv *r, struct run *run, struct node *n);

#endif
