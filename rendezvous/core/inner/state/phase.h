/*
 * core/inner/state/phase: inside the rendezvous core: the notes of what a run
 * does, for those who count its time (rendezvous/account), and the text that
 * these give back: what the time went to, for the next server. Nothing that the
 * server decides depends on it. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_PHASE_H
#define RENDEZVOUS_CORE_INNER_STATE_PHASE_H

#include "rendezvous/core/rdzv.h"

struct node;
struct run;

/* The run begins, in a new slot or with nothing known of it. */
void phase_begin(struct rdzv *r, struct run *run);

/* Whatever may have changed of the run has: after each step, before what the
 * end of a round forgets, and before a message bears the sums. */
void phase_look(struct rdzv *r, struct run *run);

/* A node of the round is lost whose last sign of life was then. */
void phase_lost(struct run *run, const struct node *n);

/* How long it is since the first sign that not all went well in its round, if a
 * worker failed or a node is lost; 0: none did, or its workers never all ran.
 */
int64_t phase_detect_us(const struct rdzv *r, const struct run *run);

/* A node tells its steps. */
void phase_tell_steps(struct rdzv *r,
                      struct run *run,
                      const struct node *n,
                      const struct note_steps *steps);

/* What a member of the run brings of an earlier server's sums. */
void phase_restore(struct rdzv *r, struct run *run, const struct msg_join *j);

#endif
