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
 * What a message or event does to a node, by the node's state (a blank cell:
 * noted as stale where it bears an old round, and ignored):
 *
 *             WAITING   SPARE     RUNNING    DONE       STOPPING  STALE
 *   beat      lease     lease     lease      lease      lease     lease
 *   failed                        end round             root?
 *   done                          DONE
 *   ready                         end round, WAITING    WAITING   newcomer
 *   leave     remove    remove    LEAVING,   gone done  LEAVING   remove
 *                                 end round
 *   FIN       remove    remove    lost       gone done  lost      remove
 *   broken    absent    remove    absent     absent     absent    remove
 *   lease up  remove    remove    lost       gone done  lost      remove
 *   drain     DRAINED   DRAINED   LEAVING,   told       LEAVING   told
 *                                 end round
 *
 * A newcomer to a round that can grow ends it, at once or, as a SPARE until
 * then, when --scale_interval since the last such end is over. Where a round
 * ends without a failure its stop is graceful: workers are given time, until
 * something is lost or fails after all, or a node's workers did not leave as
 * those do that were asked (round_hurry).
 *
 * `drain` is an operator's command (command.c), which the node is told of, and
 * told again whenever it comes back, until it answers by leave. A DRAINED node
 * runs no workers and has no place in a round to come; it is removed by leave,
 * by a FIN, or when its lease is over. Where it was in the last round, the next
 * one waits for that.
 *
 * QUARANTINED is a spare of last resort (strikes.h): a WAITING node becomes one
 * when a round is over, and WAITING again where too few are there without it;
 * to what comes, it is as a SPARE.
 *
 * A node that was in no round yet is removed when its connection breaks.
 * LEAVING nodes are removed by ready, by a FIN, or when their lease is over.
 * In a run that ENDED, nodes are told so twice: first to know and say bye, but
 * to stay; and when all know, or half a second later, to go. They are removed
 * by their second bye. Whoever knew of the end when a server died tells the
 * next one (join.c, join_of_ended).
 *
 * A join of a node that is known says again what it may have missed (world,
 * stop, end). One of an unknown node that holds a round of a run without
 * memory rebuilds the round: see join_rebuild.h, and enum anchor in node.h for
 * what is believed of whom. Where newcomers were first, and had a round of
 * their own sealed by the time the first member came, their instance gives way
 * to the older one (join_rebuild.c, yields).
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
    /* Most of these of one source (source.h). 0: whoever comes is trusted, so
     * that he may have all, and nobody gives way to others. */
    int runs_share, nodes_share;
};

enum rdzv_event_kind {
    RDZV_MSG,    /* conn, msg; for a join also the two addresses */
    RDZV_CLOSED, /* conn, orderly */
    RDZV_TICK,   /* lag_us; due when rdzv_deadline has come */
};

struct rdzv_event {
    enum rdzv_event_kind kind;
    int64_t now_us;
    int conn;
    const struct msg *msg; /* borrowed for the step */
    const char *peer_addr; /* from where the node connected, numeric */
    const char *here_addr; /* the server's own address of that connection */
    bool orderly;   /* a FIN: everything of that node is dead, see "The FIN"
                       in ddprun-protocol(7) */
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
 * or whose host is silent: an embedded server ends when it has served and both
 * are 0. */
int rdzv_nodes(const struct rdzv *r);
int rdzv_live_runs(const struct rdzv *r);

/* Asserts the invariants of ddprun-protocol(7), as far as the server sees
 * them. */
void rdzv_check(const struct rdzv *r);

#endif
