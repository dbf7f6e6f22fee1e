/*
 * core/inner/round/round_seal: inside the rendezvous core: a round begins: who
 * is in it, where, and when. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_ROUND_SEAL_H
#define RENDEZVOUS_CORE_INNER_ROUND_ROUND_SEAL_H

#include "rendezvous/core/inner/state/node.h"

/* Seals a round if what it takes is there; starts or calls off a last call. */
void round_try_seal(struct rdzv *r, struct run *run);

/* After an outage in which no server could act: the next round waits for all
 * voters, for a lease at most. */
void round_be_calm(const struct rdzv *r, struct run *run);

/* The round of run->round begins, or, if a server before us sealed it, does
 * so for us: nothing has happened in it yet. */
void round_begin(const struct rdzv *r, struct run *run);

/* Reckons ranks, world size and master of an inherited round anew, once all of
 * its members are back: they tell no more than their group ranks. */
void round_reckon(struct rdzv *r, struct run *run);

#endif
