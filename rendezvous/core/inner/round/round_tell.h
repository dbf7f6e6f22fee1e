/*
 * core/inner/round/round_tell: inside the rendezvous core: what nodes are told
 * of the round that they are in, or wait for. Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_ROUND_ROUND_TELL_H
#define RENDEZVOUS_CORE_INNER_ROUND_ROUND_TELL_H

#include "rendezvous/core/inner/state/node.h"

/* Sends a node its place in the round of run->round. */
void round_send_world(struct rdzv *r,
                      const struct run *run,
                      const struct node *n);

/* Tells a node that waits who is there. */
void round_send_waiting(struct rdzv *r,
                        const struct run *run,
                        const struct node *n);

/* Tells all that wait, and people, who is there; and when to do so again. */
void round_notify_waiting(struct rdzv *r, struct run *run);

/* A node was refused while others wait for it: they are told which one and why,
 * soon, and with each notice until it comes or the round is sealed. `why` is
 * what that node is told. */
void round_tell_refusal(struct rdzv *r,
                        struct run *run,
                        const char *node,
                        const char *why);

/* The node has come after all. */
void round_forget_refusal(struct run *run, const char *node);

/* Restarts that were charged before the last round, or the one that is
 * proposed. */
int round_restarts_before(const struct run *run);

/* The names of those that wait, cut with "..." if the field is full. */
void round_list_waiting(const struct rdzv *r,
                        const struct run *run,
                        char *names,
                        size_t size);

#endif
