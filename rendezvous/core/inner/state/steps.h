/*
 * core/inner/state/steps: inside the rendezvous core: the steps that nodes tell
 * of their workers. Only to be shown: nothing that the server does depends on
 * them. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_STEPS_H
#define RENDEZVOUS_CORE_INNER_STATE_STEPS_H

#include "rendezvous/core/rdzv.h"

struct node;
struct run;

/* A beat of a node. */
void steps_beat(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg_beat *b);

/* Two names of nodes, and the rest. */
#define STEPS_APART_MAX 384

/* For people: which nodes of the round cannot have been at one step, as far as
 * their beats tell; "": none. */
void steps_apart(const struct rdzv *r,
                 const struct run *run,
                 char text[STEPS_APART_MAX]);

#endif
