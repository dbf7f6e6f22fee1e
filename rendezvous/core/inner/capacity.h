/*
 * core/inner/capacity: inside the rendezvous core: a place in its tables, and
 * what gives way where there is none. Nothing outside rendezvous/core includes
 * this.
 */
#ifndef RENDEZVOUS_CORE_INNER_CAPACITY_H
#define RENDEZVOUS_CORE_INNER_CAPACITY_H

#include "rendezvous/core/inner/node.h"

/*
 * Room for a node of that address in `run`, or, where that is NULL, for a run
 * of its own as well (room_free_run). Where all is taken something gives way:
 * what ended, what is deserted, and at last what one source has more of than
 * that address, and has no round yet. False: that would not do; then nothing
 * has.
 */
bool room_make(struct rdzv *r, const struct run *run, const char *addr);

/* A slot for a run that is free, or NULL. */
struct run *room_free_run(const struct rdzv *r);

#endif
