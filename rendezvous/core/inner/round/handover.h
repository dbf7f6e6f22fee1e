/*
 * core/inner/round/handover: inside the rendezvous core: the launcher that this
 * server belongs to leaves a run, and the server ends with it. A server that
 * ends while a round is proposed leaves the others in doubt of it for a lease;
 * one of two nodes, for good. So the launcher stays until nothing is on its
 * way. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_HANDOVER_H
#define RENDEZVOUS_CORE_INNER_ROUND_HANDOVER_H

#include "rendezvous/core/inner/state/node.h"

/* Whether this server ends with the launcher of that node. */
bool handover_is_ours(const struct rdzv *r, const struct node *n);

/* The node has left, and is about to be removed. If it is ours its connection
 * stays open; what comes on it means nothing any more. */
void handover_begin(struct rdzv *r, struct node *n);

/* Whether that connection is the one. */
bool handover_is_at(const struct rdzv *r, int conn);
void handover_closed(struct rdzv *r);

/* Tells the launcher to go, if the run can be taken over as it stands. Called
 * for each run that a step touched, at its end. */
void handover_look(struct rdzv *r, struct run *run);

#endif
