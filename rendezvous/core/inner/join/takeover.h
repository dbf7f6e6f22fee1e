/*
 * core/inner/join/takeover: inside the rendezvous core: what follows from what
 * nodes promised, accepted and claimed: the server asks for promises, is
 * elected, puts a round in force. Nothing outside rendezvous/core includes
 * this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_TAKEOVER_H
#define RENDEZVOUS_CORE_INNER_JOIN_TAKEOVER_H

#include "rendezvous/core/inner/state/node.h"

/* Does what has become possible by the step that was made. Called for each run
 * that the step touched. */
void takeover_look(struct rdzv *r, struct run *run);

#endif
