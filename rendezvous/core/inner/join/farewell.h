/*
 * core/inner/join/farewell: inside the rendezvous core: the farewells of
 * launchers. One of two proofs that nothing of a node runs any more; the other
 * one is that its lease is over. How a connection ended, what another node
 * says, and what is found on a host prove nothing.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_FAREWELL_H
#define RENDEZVOUS_CORE_INNER_JOIN_FAREWELL_H

#include "rendezvous/core/inner/state/node.h"

struct farewells;

/* Owned by the caller; NULL: no memory. */
struct farewells *farewell_new(void);
void farewell_del(struct farewells *f);

/* `farewell`, on a connection that has not joined, which it ends. Said again it
 * changes nothing. */
void farewell_hear(struct rdzv *r, const struct rdzv_event *ev);

/* Does what follows for the run from all that were heard, as far as it did not
 * yet: more may follow once more is known of the run. */
void farewell_tell(struct rdzv *r, struct run *run);

/* The part of that which concerns members of a round that was taken over. */
void farewell_close_holes(struct rdzv *r, struct run *run);

#endif
