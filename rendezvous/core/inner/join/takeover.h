/*
 * core/inner/join/takeover: inside the rendezvous core: with failover, what
 * follows from what nodes promised, accepted and claimed: the server asks for
 * promises, takes office, puts a round in force. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_TAKEOVER_H
#define RENDEZVOUS_CORE_INNER_JOIN_TAKEOVER_H

#include "rendezvous/core/inner/state/node.h"

/* Does what has become possible by the step that was made. Called for each run
 * that the step touched; nothing if it has no failover. */
void takeover_look(struct rdzv *r, struct run *run);

/* A witness said that this agent is dead, with its host and the server of that
 * id. */
void takeover_excuse(struct rdzv *r,
                     struct run *run,
                     const char *agent,
                     const char *server);

/* Another launcher of its host said that this one is dead, and what it voted
 * for. */
void takeover_last_word(struct rdzv *r,
                        struct run *run,
                        const struct msg_dead *d);

#endif
