/*
 * core/inner/round/propose: inside the rendezvous core: a round is sealed in
 * two steps. It is proposed to its voters and to the voters of the last round
 * (RUN_PENDING), and is in force when enough voters have accepted it
 * (authority.h). Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_PROPOSE_H
#define RENDEZVOUS_CORE_INNER_ROUND_PROPOSE_H

#include "rendezvous/core/inner/state/node.h"

/* The round of r->places[0..n_members), in the order of group ranks, whose
 * nodes are NODE_PENDING, and whose number and sizes stand in run->round. */
void propose_round(struct rdzv *r, struct run *run, int n_members);

/*
 * The newest round that this server found may be in force or not. Proposes its
 * voters anew, under the next number, so that this is known; no worker runs
 * such a round, and none of its members may run another one by now.
 */
void propose_again(struct rdzv *r, struct run *run);

void propose_accepted(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_accept *m);

/* Puts what is proposed in force, if enough have accepted it. */
void propose_try_commit(struct rdzv *r, struct run *run);

/* A member of the round is gone before that: there is no such round. */
void propose_give_up(struct rdzv *r, struct run *run, const char *why);

/* Says what is proposed, or who the voters are, to a node that comes (back). */
void propose_say(struct rdzv *r, struct run *run, const struct node *n);
void propose_say_voters(struct rdzv *r, struct run *run, const struct node *n);

/* The newest round is in force. Nothing if there is no connection (-1). */
void propose_say_go(struct rdzv *r, const struct run *run, int conn);

/* A voter came while a round is proposed: asks it, too. */
void propose_ask(struct rdzv *r, struct run *run, const struct node *n);

/* Notes where the voters of the newest round are, as far as they are here. */
void propose_find_addresses(struct rdzv *r,
                            struct run *run,
                            const struct voters *voters);

#endif
