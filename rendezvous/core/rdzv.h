/*
 * core/rdzv: the rendezvous server's brain. Pure: an event goes in, actions
 * come out; no clock, no I/O, no allocation after rdzv_new, nothing that can
 * fail. Capacity is reserved; what comes beyond it is refused, which is an
 * action and not an error.
 *
 * A run goes through these states (a run that is not there is opened by its
 * first join):
 *
 *            enough nodes, last call over        a worker failed, a node is
 *            (later rounds: all survivors back)  lost, goes or joins
 *   GATHER ------------------------------> ACTIVE ---------------------> DRAIN
 *     ^                                      | every node is done          |
 *     |                                      v                             |
 *     |   nobody came in time              ENDED <-------------------------+
 *     |                                      ^    restarts are used up     |
 *     +--------------------------------------|-----------------------------+
 *               all workers of the round are dead or fenced
 *
 * Between GATHER and ACTIVE it is PENDING: the round is proposed, and in force
 * once enough voters have accepted it (authority.h); GATHER again if one of its
 * members goes before. And a server without memory of the run is ELECTING
 * until it is the leader:
 *
 *               a node tells of a round             a majority promised
 *   (no round) ------------------------> ELECTING ---------------------> ACTIVE
 *
 * What an event does to a node, by the node's state. "over": the round ends.
 * "-": nothing; it is noted as stale if it bears an old round.
 *
 *                ready    leave     farewell broken    lease up  drain
 *   JOINING      noted    noted     removed  removed   removed   refused
 *   PENDING      -        removed;  removed; absent    removed;  WAITING
 *                         WAITING   WAITING            WAITING   (the others)
 *   WAITING      -        removed   removed  absent*   removed   DRAINED
 *   SPARE        -        removed   removed  removed   removed   DRAINED
 *   QUARANTINED  -        removed   removed  absent*   removed   DRAINED
 *   RUNNING      over     over;     lost;    absent    lost;     over;
 *                WAITING  LEAVING   over               over      LEAVING
 *   DONE         -        removed   removed  absent    removed   told
 *   STOPPING     WAITING  LEAVING   lost     absent    lost      LEAVING
 *   LEAVING      removed  -         removed  absent    removed   -
 *   DRAINED      -        removed   removed  absent    removed   -
 *   STALE        placed   removed   removed  removed+  removed   told
 *   ENDING       -        -         removed  ENDED     removed   -
 *   ENDED        -        -         removed  absent    removed   -
 *
 * *: removed if it was in no round yet. +: absent if an operator drains it.
 * Besides, in every state `beat` renews the lease. `failed` ends the round of a
 * RUNNING node; from a STOPPING one it may still be the root cause. `ready`
 * with `done` makes a RUNNING node DONE. `leave` of who knows of the end makes
 * an ENDING node ENDED, and removes an ENDED one; before the end it is out of
 * order. Which states of a run go with
 * which states of its nodes is a table, too: inner/state/states.c.
 *
 * A newcomer to a round that can grow ends it, at once or, as a SPARE until
 * then, when --scale_interval since the last such end is over. If a round
 * ends without a failure its stop is graceful: workers are given time, until
 * something is lost or fails after all, or a node's workers did not leave as
 * those do that were asked (round_hurry).
 *
 * The launcher to which this server belongs goes last: once it
 * has left, its connection stays open until the others have their next round,
 * or there will be none (inner/round/handover.h).
 *
 * `drain` is an operator's command (command.c), which the node is told of, and
 * told again whenever it comes back, until it answers by leave. A DRAINED node
 * runs no workers and has no place in a round to come; it is removed by leave,
 * by its farewell, or when its lease is over. If it was in the last round, the
 * next one waits for that.
 *
 * QUARANTINED is a spare of last resort (strikes.h): a WAITING node becomes one
 * when a round is over, and WAITING again if too few are there without it;
 * to what comes, it is as a SPARE.
 *
 * In a run that ENDED, nodes are told so twice: first to say bye, but to stay
 * (ENDING); and when all have, or half a second later, to go (ENDED). Their
 * second bye removes them. A node that knew of the end when a server died tells
 * the next server (join.c, join_of_ended).
 *
 * A join of a node that is known says again what it may have missed (world,
 * stop, end). One of an unknown node is a claim, if it holds a round: what such
 * nodes tell is put together once a majority of the voters obeys this server
 * (takeover.c). If newcomers were first, and had a round of their own, their
 * instance gives way to the older one (moved.c).
 */
#ifndef RENDEZVOUS_CORE_RDZV_H
#define RENDEZVOUS_CORE_RDZV_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/core/note.h"
#include "rendezvous/proto/msg.h"

/* Capacity, reserved by rdzv_new. Connections are small integers that the
 * shell gives out: 0 <= conn < conns_max. */
struct rdzv_limits {
    int runs_max;
    int nodes_max; /* of all runs together */
    int conns_max;
    bool trusted;  /* all peers have the token */
    bool embedded; /* a launcher serves, and no option raises these limits */
    /* This process, 16 random digits: its terms bear them. */
    char server[MSG_VOTER_LEN + 1];
    int64_t began_us; /* when it began to listen, on the clock of the steps */
};

enum rdzv_event_kind {
    RDZV_MSG,    /* conn, msg; for a join also the two addresses */
    RDZV_CLOSED, /* conn */
    RDZV_TICK,   /* lag_us; due when rdzv_deadline has come */
};

struct rdzv_event {
    enum rdzv_event_kind kind;
    int64_t now_us;
    int conn;
    const struct msg *msg; /* borrowed for the step */
    const char *peer_addr; /* from where the node connected, numeric */
    const char *here_addr; /* the server's own address of that connection */
    bool trusted;   /* its orders are carried out whichever run they are about;
                       others must come from a host of a member of the run */
    int64_t lag_us; /* how long the server itself was held up; leases are
                       extended by it, so that nobody pays for that */
};

enum rdzv_action_kind {
    RDZV_SEND, /* msg to conn */
    RDZV_DROP, /* close conn once what was sent is out; no event for it more */
    RDZV_NOTE, /* tell */
};

struct rdzv_action {
    enum rdzv_action_kind kind;
    int conn;
    const struct msg *msg;
    const struct note *note;
};

/*
 * Where actions go: emit is called once for each, in order, during the step.
 * It borrows the action and must not call back into the core.
 */
struct rdzv_actions {
    void (*emit)(void *ctx, const struct rdzv_action *action);
    void *ctx;
};

struct rdzv;

/* Owned by the caller. Aborts when out of memory. `seed` makes instance ids:
 * random in production, fixed in a simulation. */
struct rdzv *rdzv_new(const struct rdzv_limits *limits, uint64_t seed);
void rdzv_del(struct rdzv *r);

void rdzv_step(struct rdzv *r,
               const struct rdzv_event *ev,
               const struct rdzv_actions *out);

/* When to send RDZV_TICK; MONO_NEVER: no need. */
int64_t rdzv_deadline(const struct rdzv *r);

/* How many nodes there are, and how many runs that have not ended and have any,
 * or whose host is silent: an embedded server ends when a run has ended there
 * and both are 0. */
int rdzv_nodes(const struct rdzv *r);
int rdzv_live_runs(const struct rdzv *r);

/* How many runs have ended here and are remembered. */
int rdzv_ended_runs(const struct rdzv *r);

/* Asserts the invariants of ddprun-protocol(7), as far as the server sees them,
 * and which fields are set in which state. Takes time for each node: the
 * simulator and builds with SAN call it after each step. */
void rdzv_check(const struct rdzv *r);

#endif
