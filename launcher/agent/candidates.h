/*
 * launcher/agent/candidates: where a run may be served, and whom to try next.
 * Pure: it knows neither time nor sockets.
 *
 * The order is the same on every node, so that the nodes that lost their server
 * meet at the next one: the endpoints of the list, then the addresses of the
 * voters, as the server told them. From the one in hand candidates_next goes
 * on to the one behind it, and from the last back to the first. Behind each one
 * that answers, but has not the authority, stands the lost one once more: if
 * the others did not come, it is perhaps there for them.
 *
 * So it goes while a lease is held. Later, after one pass without a server that
 * has the authority, the nodes are no longer in step. Then there is a home: the
 * first one, in this order, that takes connections. A node is there most of the
 * time (candidates_patience), and visits one of the others between two stays,
 * each in its turn, from the first endpoint on, which knows best where the run
 * is. So those that reach the same first one meet there, and one that only some
 * reach is found as well.
 */
#ifndef LAUNCHER_AGENT_CANDIDATES_H
#define LAUNCHER_AGENT_CANDIDATES_H

#include <stdbool.h>

#include "rendezvous/proto/msg.h"

#define CANDIDATES_ADDR_MAX 72 /* of msg_moved.addr */
#define CANDIDATES_HOST_MAX 64

/* The caller's storage; the fields are the unit's own. */
struct candidates {
    int endpoints;
    int voters;
    char addrs[MSG_VOTERS_MAX][CANDIDATES_ADDR_MAX + 1]; /* of the voters */

    int at; /* in hand: its number, voters behind endpoints; -1: `target` is in
               no list (any more) */
    char target[CANDIDATES_ADDR_MAX + 1]; /* of that in hand, "": an endpoint */
    char moved[CANDIDATES_ADDR_MAX + 1];  /* where to go next, "": nowhere */

    /* Since the last server that had the authority: */
    int moves;     /* how often a server sent it on */
    int lost;      /* that one; -1: it is in no list */
    int walked;    /* how far the pass is */
    int left;      /* ... and what is left of it */
    bool again;    /* the passes are over */
    bool answered; /* the one in hand took the connection */
    int home;      /* -1: none answered yet */
    int visited;   /* the last one besides home */
    char silent[CANDIDATES_HOST_MAX + 1]; /* what is on that host is left out of
                                             the first pass; "": none */
};

/* The first of `endpoints` (at least 1) is in hand. */
void candidates_init(struct candidates *c, int endpoints);

/* The voters' addresses, as in msg_voters.addrs; they take the place of those
 * known. What is no address is left out. The one in hand stays. */
void candidates_learn(struct candidates *c, const char *addrs);

/* "ADDR:PORT" with a port from 1 to 65535, and short enough. */
bool candidates_is_addr(const char *addr);

int candidates_count(const struct candidates *c);
/* What is in hand: "ADDR:PORT", or "" and the number of an endpoint. */
const char *candidates_target(const struct candidates *c);
int candidates_which(const struct candidates *c);

/* It took the connection. */
void candidates_answered(struct candidates *c);
/* It has the authority: what was tried before is forgotten. */
void candidates_served(struct candidates *c);
/* It fell silent, and `host`, its address, is likely dead; "": not known. */
void candidates_silent(struct candidates *c, const char *host);
/* It says that the run is served at `addr` (candidates_is_addr): that is the
 * next one. */
void candidates_moved(struct candidates *c, const char *addr);

/* Takes the next one in hand; `leased`: a lease is held. True: it went back in
 * the order, or was sent on more than once; a pause is due before it is tried.
 */
bool candidates_next(struct candidates *c, bool leased);

/* Each was tried since the last one that had the authority. */
bool candidates_are_tried(const struct candidates *c);

/* How long to stay at the one in hand without a lease, in quarters of a
 * heartbeat. */
int candidates_patience(const struct candidates *c);

/* Asserts that the fields fit together. */
void candidates_check(const struct candidates *c);

#endif
