/*
 * core/join: inside the rendezvous core: a node comes, or comes back. Nothing
 * outside rendezvous/core includes this.
 */
#ifndef JOIN_H
#define JOIN_H

#include "rendezvous/core/node.h"

/* A node asks for a place, or for its old place again. */
void join_step(struct rdzv *r, const struct rdzv_event *ev);

#endif
