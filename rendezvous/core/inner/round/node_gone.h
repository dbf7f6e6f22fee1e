/*
 * core/inner/round/node_gone: inside the rendezvous core: a node goes, and what
 * its run does about that. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_NODE_GONE_H
#define RENDEZVOUS_CORE_INNER_ROUND_NODE_GONE_H

#include "rendezvous/core/inner/state/node.h"

/* Removes a node, with all that follows for its run, which may be gone then.
 * `how` is for people. */
void node_gone(struct rdzv *r, struct node *n, const char *how);

/* The same of one that was LEAVING, and has said that no worker is left. */
void node_left(struct rdzv *r, struct node *n);

/* Its lease is over: it is gone, as far as this server may judge that. */
void node_expired(struct rdzv *r, struct node *n);

/* The node's connection ended, which proves nothing: the node is waited for
 * while its lease may let it run workers, and is gone if it can run none. */
void node_broke_off(struct rdzv *r, struct node *n);

#endif
