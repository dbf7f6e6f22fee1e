/*
 * core/inner/join/moved: inside the rendezvous core: where runs are served.
 * The nodes of a run that is served elsewhere tell its endpoint that
 * (`serves`), so that a node that comes there finds it. Launchers that look for
 * a leader ask (`serves` without an address) without joining; each is answered
 * with what is known here, and with how many of them have a vote. Nothing
 * outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_MOVED_H
#define RENDEZVOUS_CORE_INNER_JOIN_MOVED_H

#include "rendezvous/core/inner/state/node.h"

struct moved;

/* Owned by the caller; NULL: no memory. */
struct moved *moved_new(void);
void moved_del(struct moved *m);

/* `serves`, on a connection that has not joined, or of a node that passes it
 * on. A question is answered. What is told holds for 3 s, or until the
 * connection ends. Nodes that are here for
 * this run are sent there, unless this server has it, and may act; if the other
 * instance is the older one, in any case. If it is a younger one than is known
 * here that is the answer.
 */
void moved_heard(struct rdzv *r, const struct rdzv_event *ev);

/* Whether voters of that run look for a leader here. */
bool moved_is_sought(const struct rdzv *r, const char *run);

/* A connection that had not joined has ended: what it said holds no more. */
void moved_closed(struct rdzv *r, int conn);

/* True: the run of this join is served elsewhere, and the node was told so; its
 * connection is closed. */
bool moved_answer(struct rdzv *r, const struct msg_join *j, int conn);

#endif
