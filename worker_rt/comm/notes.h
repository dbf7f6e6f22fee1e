/*
 * worker_rt/comm/notes: what a rank that waits for a single rank, or for sends,
 * tells those it waits for, and what it concludes from what others tell it:
 * that a rank waits for a send that will never come, or that ranks wait for
 * each other in a circle. And what was sent and never received.
 */
#ifndef WORKER_RT_COMM_NOTES_H
#define WORKER_RT_COMM_NOTES_H

#include "worker_rt/comm/wire.h"

/* Which peers are asked for data, and which are sent some. */
struct notes_asked {
    short events[WIRE_PEERS_MAX]; /* POLLIN, POLLOUT */
    bool silent[WIRE_PEERS_MAX];  /* nothing has come of what is awaited */
};

/* Keeps the note that has come from `p`, in its `blame`. */
void notes_take(struct wire_peer *p);

/* Of a rank that has been blocked for a while: tells the peers from which
 * nothing has come what it waits for, once in each call. */
void notes_give(struct wire *w, const struct notes_asked *asked);

/* CONFLICT, by what the peers have told: one waits in vain, or there is a
 * circle. What may be news for the rank that this one waits for is passed on,
 * once notes_give has been called in this call. */
int notes_check(struct wire *w,
                const struct notes_asked *asked,
                struct ddp_err *err);

/* A number whose sum over all ranks, which wraps around, is 0 if all sends that
 * are done have been received. */
uint64_t notes_open_sends(const struct wire *w);

/* CONFLICT, in a barrier: it was not 0. Says which send it is if it has come to
 * this rank. */
int notes_left_over(struct wire *w, struct ddp_err *err);

/* Whether the head of a message has come from `p` that is not read yet. */
bool notes_peek(const struct wire_peer *p, struct wire_head *got);

#endif
