/*
 * core/round: inside the rendezvous core: the life of a round (gathered,
 * sealed, over, ended: round.c), who comes into it (join.c), what gives way
 * where there is no room (room.c), and what an operator orders (order.c).
 * Nothing outside rendezvous/core includes this.
 */
#ifndef ROUND_H
#define ROUND_H

#include "rendezvous/core/node.h"

/* What an agent's workers may run on for, besides a lease, after a connection
 * was refused: agent.c reckons with it (REFUSED_US). A rebuilt round waits so
 * long, and a lease, for those that it has not seen. */
#define RECONNECT_US (5 * MONO_S)

/* -- join.c ---------------------------------------------------------------- */

/* A node asks for a place, or for its old place again. */
void join_step(struct rdzv *r, const struct rdzv_event *ev);

/* Finds a run that has not ended; NULL: none. */
struct run *run_find(const struct rdzv *r, const char *id);

/* Gives a place to a node that is in no round: it waits for the next one,
 * makes the round larger, or is a spare. */
void join_place(struct rdzv *r, struct run *run, struct node *n);

/* Whether nobody is there, nor known to be about to come back. */
bool run_is_abandoned(const struct run *run);

/* Removes a run and its nodes. */
void run_forget(struct rdzv *r, struct run *run);

/* -- room.c ---------------------------------------------------------------- */

/*
 * A slot for a run of that address, and room for a node of it, of `keep` if its
 * run is known. Where all is taken something gives way: what ended, what is
 * deserted, and at last what one source has more of than that address, and has
 * no round yet. NULL and false: nothing does.
 */
struct run *room_for_run(struct rdzv *r, const char *addr);
bool room_for_node(struct rdzv *r, const struct run *keep, const char *addr);

/* A slot that is free without that, or NULL. */
struct run *room_free_run(const struct rdzv *r);

/* -- order.c --------------------------------------------------------------- */

/* An operator's order, on a connection that is dropped with the answer. */
void order_step(struct rdzv *r, const struct rdzv_event *ev);

/* -- rdzv.c ---------------------------------------------------------------- */

/* Removes a node, with all that follows for its run, which may be gone then.
 * `how` is for people. */
void node_gone(struct rdzv *r, struct node *n, const char *how);

/* -- round.c --------------------------------------------------------------- */

/* Opens what a fresh run needs to gather its first round. */
void round_gather(struct rdzv *r, struct run *run);

/* Seals a round if what it takes is there; starts or calls off a last call. */
void round_try_seal(struct rdzv *r, struct run *run);

/* So long after a server began, a lease of one before it may still be out. */
int64_t round_foreign_lease_us(const struct run *run);

/* From when on the next round may be sealed, where the last one was sealed by
 * another server; in the past where it was not. */
int64_t round_known_at_us(const struct run *run);

/* Reckons ranks, world size and master of a rebuilt round anew, once all of its
 * members are back: they tell no more than their group ranks. */
void round_reckon(struct rdzv *r, struct run *run);

/* A node has come while others of the rebuilt round are missing: sees soon
 * whether it is they. */
void round_call_roll(const struct rdzv *r, struct run *run);

/* Whether a newcomer would make the sealed round larger. Not while members are
 * missing, and not once it is about to be done. */
bool round_has_room(const struct run *run);

/*
 * There are nodes that wait, and a round that runs without them: makes it
 * larger, if it has room, now or when --scale_interval since the last time is
 * over.
 */
void round_try_scale(struct rdzv *r, struct run *run, const char *why);

/* Ends the sealed round: its workers are stopped everywhere. */
void round_over(struct rdzv *r,
                struct run *run,
                const char *why,
                enum msg_graceful graceful);

/* More is known of why the round is over: says so where workers still stop. */
void round_tell_why(struct rdzv *r, struct run *run, const char *why);

/* Something is lost or failed while workers leave at their own pace: their
 * peers may wait for it for ever, so none is given that time any more. */
void round_hurry(struct rdzv *r, struct run *run, const char *why);

/* Ends the drain once nobody runs workers of the round any more. */
void round_try_drained(struct rdzv *r, struct run *run);

/* Ends the run if all nodes of the round are done. */
void round_try_done(struct rdzv *r, struct run *run);

/*
 * Tells all nodes that the run is over. `end` is copied. It is final once every
 * node that is connected knows of it, or SETTLE_US later: until then none
 * leaves, so that a server which takes over hears of the end from any of them.
 */
void run_end(struct rdzv *r, struct run *run, const struct msg_end *end);
void round_send_end(struct rdzv *r, struct run *run, struct node *n);

/* Makes the end final, if it is time to. */
void round_try_settle(struct rdzv *r, struct run *run);

/* Sends a node its place in the round of run->round. */
void round_send_world(struct rdzv *r,
                      const struct run *run,
                      const struct node *n);

/* Tells a node that waits who is there. */
void round_send_waiting(struct rdzv *r,
                        const struct run *run,
                        const struct node *n);

/* What is due at r->now_us: notices, last call, timeouts. */
void round_tick(struct rdzv *r, struct run *run);
int64_t round_deadline(const struct rdzv *r, const struct run *run);

#endif
