/*
 * core/inner/join/witness: inside the rendezvous core: who speaks for a host.
 * The guard of the host that serves a run holds a connection to other servers;
 * its farewell there proves that the agent on that host, all of its workers and
 * the server are dead. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_WITNESS_H
#define RENDEZVOUS_CORE_INNER_JOIN_WITNESS_H

#include "rendezvous/core/inner/state/node.h"

struct witnesses;

/* Owned by the caller; NULL: no memory. */
struct witnesses *witness_new(void);
void witness_del(struct witnesses *w);

/* `witness`, on a connection that has not joined. */
void witness_hello(struct rdzv *r, const struct rdzv_event *ev);

/* That connection has ended; nothing if it was none. `farewell`: it was a
 * farewell, or counts as one. */
void witness_closed(struct rdzv *r, int conn, bool farewell);

/* Makes known to the run who is proven dead. */
void witness_tell(struct rdzv *r, struct run *run);

#endif
