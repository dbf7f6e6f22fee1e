/*
 * tests/lib/obey: agents that do as a core asks them: whoever is asked for a
 * promise gives it, and whoever is asked to accept a round does, at once.
 */
#ifndef OBEY_H
#define OBEY_H

#include "rendezvous/core/rdzv.h"

/* As rdzv_step, and then the answers, each a step of its own. What was asked on
 * a connection that the core drops is not answered. */
void obey_step(struct rdzv *r,
               const struct rdzv_event *ev,
               const struct rdzv_actions *out);

/* To another server: the join `j` is of a node that accepted the round of that
 * join, whose voters are the nodes of that row, "01": 0 and 1, which are called
 * as "%016d%016d" says. Fills `voted`, to be said behind it. */
void obey_voted(struct msg_join *j,
                const char *row,
                int group_world,
                struct msg *voted);

#endif
