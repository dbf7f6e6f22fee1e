/*
 * core/room: inside the rendezvous core: a place in its tables, and what gives
 * way where there is none. Nothing outside rendezvous/core includes this.
 */
#ifndef ROOM_H
#define ROOM_H

#include "rendezvous/core/node.h"

/*
 * A slot for a run of that address, and room for a node of it, of `keep` if its
 * run is known. Where all is taken something gives way: what ended, what is
 * deserted, and at last what one source has more of than that address, and has
 * no round yet. NULL and false: nothing does.
 */
struct run *room_for_run(struct rdzv *r, const char *addr);
bool room_for_node(struct rdzv *r, const struct run *keep, const char *addr);

/* A slot that is free without that, or NULL. */
struct run *room_free_run(const struct rdzv *r);

#endif
