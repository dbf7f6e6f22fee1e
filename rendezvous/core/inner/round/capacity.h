/*
 * core/inner/round/capacity: inside the rendezvous core: free slots in its
 * tables, and what gives way if there is none. Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_CAPACITY_H
#define RENDEZVOUS_CORE_INNER_ROUND_CAPACITY_H

#include "rendezvous/core/inner/state/node.h"

/*
 * Makes sure that there is a free slot for a node in `run`. If `run` is NULL, a
 * slot for a run of its own as well (capacity_free_run). If the tables are
 * full, what ended or is deserted gives way. False: the join does not fit; then
 * nothing has changed.
 */
bool capacity_make(struct rdzv *r, const struct run *run);

/* The limits in a message: the options that raise them, if there are any. */
#define CAPACITY_TEXT_MAX 80
void capacity_text(const struct rdzv *r, char text[CAPACITY_TEXT_MAX]);

/* A free slot for a run, or NULL. */
struct run *capacity_free_run(const struct rdzv *r);

#endif
