/*
 * core/inner/state/states: inside the rendezvous core: which node may be in
 * which state in which state of its run, and which fields are set then, as
 * tables that are checked. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATES_H
#define RENDEZVOUS_CORE_INNER_STATES_H

#include "rendezvous/core/inner/state/node.h"

/* Asserts what holds between two steps: of one node by itself, of one run and
 * all of its nodes, and of the table of nodes. Each only reads, and takes time
 * for each node that it looks at. */
void states_check_node(const struct rdzv *r, const struct node *n);
void states_check_run(const struct rdzv *r, const struct run *run);
void states_check_tables(const struct rdzv *r);

#endif
