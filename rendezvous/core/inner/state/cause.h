/*
 * core/inner/state/cause: inside the rendezvous core: which of a round's
 * failures the others are consequences of. Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_CAUSE_H
#define RENDEZVOUS_CORE_INNER_STATE_CAUSE_H

#include "rendezvous/core/inner/state/node.h"

/* Keeps the failure that the others are consequences of. True: until now only a
 * consequence of it was known. */
bool cause_take(struct rdzv *r,
                struct run *run,
                const struct node *n,
                const struct msg_failed *f);

/* By status 77 a worker says that its peer went first: as long as all say so,
 * nobody is known to be the cause. */
bool cause_is_consequence(const struct msg_failed *f);

/* "signal 9 (SIGKILL)"; returns `text`. */
#define CAUSE_SIGNAL_MAX 40
const char *cause_signal(int64_t signo, char text[CAUSE_SIGNAL_MAX]);

/* What happened, for people. */
void cause_describe(const struct node *n,
                    const struct msg_failed *f,
                    char *why,
                    size_t size);

#endif
