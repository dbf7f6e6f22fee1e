/*
 * core/inner/round/command: inside the rendezvous core: what an operator
 * orders. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_COMMAND_H
#define RENDEZVOUS_CORE_INNER_ROUND_COMMAND_H

#include "rendezvous/core/inner/state/node.h"

/* An operator's order, on a connection that is dropped with the answer. */
void command_step(struct rdzv *r, const struct rdzv_event *ev);

/* A node asks to be drained. It is, unless the run cannot go on without it. */
void command_drain_asked(struct rdzv *r, struct node *n);

#endif
