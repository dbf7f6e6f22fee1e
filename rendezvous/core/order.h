/*
 * core/order: inside the rendezvous core: what an operator orders. Nothing
 * outside rendezvous/core includes this.
 */
#ifndef ORDER_H
#define ORDER_H

#include "rendezvous/core/node.h"

/* An operator's order, on a connection that is dropped with the answer. */
void order_step(struct rdzv *r, const struct rdzv_event *ev);

#endif
