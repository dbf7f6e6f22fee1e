/*
 * tests/unit/rendezvous/core/rdzv_hand: the server's core with agents that are
 * played by hand, so that they may also do what ours never would. Each test
 * begins with an empty server, at 1000 s. Node `who` comes on connection `who`,
 * unless said otherwise. After each step the core's own checks are made
 * (rdzv_check).
 *
 * Whoever is asked to promise, or to accept a round, does so at once, in the
 * same step as far as a test sees it, unless `answers` is false.
 */
#ifndef RDZV_HAND_H
#define RDZV_HAND_H

#include <check.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/rdzv.h"
#include "tests/lib/suite.h"

#define CONNS     40
#define ORDERS    (CONNS - 1) /* the connection of an operator's orders */
#define HEARTBEAT (1000 * MONO_MS)

extern struct rdzv *rdzv;
extern int64_t now_us;
extern char said[8000];        /* by the last step: "0:world 1:world ..." */
extern char notes[8000];       /* "joined sealed ..." */
extern struct msg last[CONNS]; /* the last one that was sent there */
extern struct msg_lease granted[CONNS]; /* the last lease there */
extern struct msg_world placed[CONNS];  /* the last world there */
extern bool answers;
extern struct msg_join like;    /* what joins look like; may be changed */
extern int world_of_rejoins;    /* group_world of make_rejoin; 2 at first */
extern char members_said[4000]; /* "ROUND: ADDRESS ADDRESS ..." */
extern int members_pieces;

/* -- what happens ---------------------------------------------------------- */

void step(const struct rdzv_event *ev); /* at now_us */
void say(int conn, const struct msg *m);
void tick(int64_t lag_us);
void pass(int64_t us); /* runs the clock on, with ticks where the core wants */
/* The connection ends; `farewell`: since all of the launcher there is dead, and
 * its guard has said so. */
void closed(int conn, bool farewell);
#define GUARDS (CONNS - 2) /* the connection of the guards */
struct msg make_farewell(int conn);
void new_server(void); /* one without memory */

/* The next servers' id; whether launchers serve; whether hosts that are not
 * trusted may join; and who wants to see each message that is sent, NULL:
 * nobody. Only the id is set when a test begins. */
extern bool embedded_server;
extern bool strangers_may_join;
extern bool orders_are_trusted; /* set when a test begins */
extern char server_id[MSG_VOTER_LEN + 1];
extern int64_t server_began_us; /* 0, long ago, when a test begins */
extern void (*on_said)(int conn, const struct msg *m);

/* From where what is said comes; the server's own address. */
extern const char *comes_from; /* "10.0.0.1" when a test begins */
#define HAND_HERE "10.0.0.9"

/* -- what agents and operators say ----------------------------------------- */

/* A newcomer's; may be changed before it is said. */
struct msg make_join(int who);
void join(int who);

/* One with what it holds: a round of two nodes of instance 77, whose first one
 * was an hour ago, at group rank `who`. */
struct msg make_rejoin(int who, int64_t round, enum msg_state state);

/* One of a node that had this world, with what its workers do. */
struct msg holds(int who, const struct msg_world *w, enum msg_state state);

/* To the next server: what it holds, as the join `m` says, and that it accepted
 * that round, whose voters are the nodes of that row: "01" are 0 and 1. */
void rejoin_voted(int conn, const struct msg *m, const char *row);

void beat_of(int conn, int64_t seq, int64_t heard, int64_t round);
void ready(int conn, int64_t round);
void done(int conn, int64_t round);
void leave(int conn, bool all);
void bye(int conn);
void failed(int conn, int64_t round, int code, int64_t age_us);
void order_drain(const char *run, const char *node, bool force);
void order_end(const char *run);
void order_go_on(const char *run, bool sure);

/* -- what came of it, by the last step ------------------------------------- */

bool told(int conn, const char *what); /* a message's name, or "drop" */
bool noted(const char *what);

/* -- worlds ---------------------------------------------------------------- */

void limits_of(int min, int max);

/* Nodes 0 and 1 run round 1 of min..max, without a last call. */
void run_two(int min, int max);

/* Both have stopped, and the round after `round` is sealed. */
void both_ready(int64_t round);

/* The clock goes on, and nodes 0 to n-1 beat. */
void later(int64_t us, int n, int64_t round);

/* Node 1 fails in the round with 9, and both stop; `progress`: node 0 had made
 * some. */
void fail_round(int64_t round, bool progress);

/* -- running --------------------------------------------------------------- */

/* A program of tests, each with a fresh server. */
#define HAND_SUITE(name)                                                       \
    SUITE(name, name, .tags = "fast", FIXTURE(hand_setup, hand_teardown))
void hand_setup(void);
void hand_teardown(void);

#endif
