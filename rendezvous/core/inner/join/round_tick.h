/*
 * core/inner/join/round_tick: inside the rendezvous core: what a run does
 * because time has passed, in whatever state it is. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_ROUND_TICK_H
#define RENDEZVOUS_CORE_INNER_JOIN_ROUND_TICK_H

#include "rendezvous/core/inner/state/node.h"

/* What is due at r->now_us: notices, last call, timeouts. */
void round_tick(struct rdzv *r, struct run *run);

/* When there is something; MONO_NEVER: nothing. */
int64_t round_deadline(const struct rdzv *r, const struct run *run);

#endif
