/*
 * core/inner/round/round: inside the rendezvous core: the life of a round:
 * gathered, sealed (round_seal), over. Nothing outside rendezvous/core includes
 * this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_ROUND_H
#define RENDEZVOUS_CORE_INNER_ROUND_ROUND_H

#include "rendezvous/core/inner/state/node.h"

/* Opens what a fresh run needs to gather its first round. */
void round_gather(struct rdzv *r, struct run *run);

/*
 * There are nodes that wait, and a round that runs without them: makes it
 * larger if it can grow, now or when --scale_interval since the last time is
 * over.
 */
void round_try_scale(struct rdzv *r, struct run *run, const char *why);

/* What the budget is to be charged for, if the round ends: a failure of a
 * worker, whose root cause is known by now (cause.h), a node that is lost or
 * goes, or both. */
void round_blame_worker(struct run *run);
void round_blame_node(struct run *run);
bool round_worker_failed(const struct run *run);

/* Ends the sealed round: its workers are stopped everywhere. */
void round_over(struct rdzv *r,
                struct run *run,
                const char *why,
                enum msg_graceful graceful);

/* More is known of why the round is over: says so where workers still stop. */
void round_tell_why(struct rdzv *r, struct run *run, const char *why);

/* Something is lost or failed while workers leave at their own pace: their
 * peers may wait for it for ever, so none is given that time any more. Nothing
 * if they were not given any. */
void round_hurry(struct rdzv *r, struct run *run, const char *why);

/* Ends the drain once nobody runs workers of the round any more. */
void round_try_drained(struct rdzv *r, struct run *run);

#endif
