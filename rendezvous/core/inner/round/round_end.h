/*
 * core/inner/round/round_end: inside the rendezvous core: how a run ends
 * because of its rounds, and what its report is told. Nothing outside
 * rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_ROUND_END_H
#define RENDEZVOUS_CORE_INNER_ROUND_ROUND_END_H

#include "rendezvous/core/inner/state/node.h"

/* Ends the run if all nodes of the round are done. */
void round_try_done(struct rdzv *r, struct run *run);

/* The run ends with the status of the worker that failed first. A crash `loop`
 * has a status of its own, since starting such a job again is useless. */
void round_end_by_failure(struct rdzv *r, struct run *run, bool loop);

/* Too few nodes came in time for the next round. */
void round_end_by_timeout(struct rdzv *r, struct run *run);

#endif
