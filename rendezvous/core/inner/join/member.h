/*
 * core/inner/join/member: inside the rendezvous core: what nodes say of their
 * part in the round, and what follows from it: see the table in rdzv.h. Each
 * may be of an older round, and then under way when that was over. Nothing
 * outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_MEMBER_H
#define RENDEZVOUS_CORE_INNER_JOIN_MEMBER_H

#include "rendezvous/core/inner/state/node.h"

/*
 * The first failure ends the round and is charged. What fails after the round
 * was over is a consequence of that, unless its age tells that it came before
 * and only its message came later.
 */
void member_failed(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_failed *f);

/* None of its workers lives any more. */
void member_ready(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_ready *m);

/* All of its workers have exited 0. */
void member_done(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 int64_t round);

/* It goes, or, interrupted, takes all with it. */
void member_leave(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_leave *l);

/* It knows of the run's end; or goes, if it did so before. */
void member_bye(struct rdzv *r, struct run *run, struct node *n);

#endif
