/*
 * core/inner/run: inside the rendezvous core: a run as such: found by its id,
 * over for good, forgotten. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_RUN_H
#define RENDEZVOUS_CORE_INNER_RUN_H

#include "rendezvous/core/inner/node.h"

/* Finds a run that has not ended; NULL: none. */
struct run *run_find(const struct rdzv *r, const char *id);

/* Whether nobody is there, nor known to be about to come back. */
bool run_is_abandoned(const struct run *run);

/* Whether a newcomer would make the sealed round larger. Not while members are
 * missing, and not once it is about to be done. */
bool run_can_grow(const struct run *run);

/* It goes on as another instance: has none now, and remembers the one that it
 * had. */
void run_leave_instance(struct run *run);

/* Whether that is its instance, or was; never of "". */
bool run_had_instance(const struct run *run, const char *instance);

/* Where it comes from, for people; "" where that is not known any more. */
const char *run_source(const struct rdzv *r, const struct run *run);

/*
 * Tells all nodes that the run is over. `end` is copied. It is final once every
 * node that is connected knows of it, or SETTLE_US later: until then none
 * leaves, so that a server which takes over hears of the end from any of them.
 */
void run_end(struct rdzv *r, struct run *run, const struct msg_end *end);
void run_send_end(struct rdzv *r, struct run *run, struct node *n);

/* Makes the end final, if it is time to. */
void run_try_settle(struct rdzv *r, struct run *run);

/* Removes a run and its nodes. */
void run_forget(struct rdzv *r, struct run *run);

#endif
