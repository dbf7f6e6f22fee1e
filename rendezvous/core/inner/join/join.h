/*
 * core/inner/join/join: inside the rendezvous core: a node comes, or comes
 * back. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_JOIN_H
#define RENDEZVOUS_CORE_INNER_JOIN_JOIN_H

#include "rendezvous/core/inner/state/node.h"

/* A node asks for a place, or for its old place again. */
void join_step(struct rdzv *r, const struct rdzv_event *ev);

#endif
