/*
 * core/inner/state/last_lease: inside the rendezvous core: the last word of a
 * server that ends in order. It promises to act no more, and so each node may
 * go on without it for reconnect_ms. Nothing outside rendezvous/core includes
 * this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_LAST_LEASE_H
#define RENDEZVOUS_CORE_INNER_STATE_LAST_LEASE_H

#include "rendezvous/core/inner/state/node.h"

/* From now on this server seals nothing and counts nobody as lost. */
void last_lease_begin(struct rdzv *r);

/* A beat of this node was answered: if that was by its last lease, enough nodes
 * know, and all that do get theirs. */
void last_lease_try(struct rdzv *r, const struct node *n);

/* How many connected nodes wait for theirs. */
int last_lease_owed(const struct rdzv *r);

#endif
