/*
 * core/inner/join/join_settle: inside the rendezvous core: the place of a node
 * that joined, or is back, and is heard by this server. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_JOIN_SETTLE_H
#define RENDEZVOUS_CORE_INNER_JOIN_JOIN_SETTLE_H

#include "rendezvous/core/inner/state/node.h"

/* A node that was not known, and is WAITING. It may hold a round all the same.
 */
void join_settle(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_join *j);

/* The server's answer to a node that it knows was perhaps lost with the
 * connection before: it says again what the node must know. */
void join_tell_again(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_join *j);

#endif
