/*
 * core/inner/round/inherited: inside the rendezvous core: which nodes may
 * still run a round that a server before us sealed, and until when. Functions
 * here only judge; what follows is done elsewhere. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_INHERITED_H
#define RENDEZVOUS_CORE_INNER_ROUND_INHERITED_H

#include "rendezvous/core/inner/state/node.h"

/* From when on the next round may be sealed, if the last one was sealed by
 * another server; in the past if it was not. */
int64_t round_known_at_us(const struct run *run);

/* Whether a member of the last round was drained since, and has not said that
 * it knows: until then it is one of the next, if a server after us asks it. */
bool round_awaits_leave(const struct rdzv *r, const struct run *run);

/* The places of an inherited round: all are holes; one is claimed by the member
 * of that group rank; whether it was. */
void round_open_holes(struct rdzv *r, const struct run *run);
void round_fill_hole(struct rdzv *r, struct run *run, int group_rank);
bool round_is_taken(const struct rdzv *r, const struct run *run, int rank);

#endif
