/*
 * launcher/agent/candidates: the places where a run may be served, and which of
 * them a launcher joins. Pure: it knows neither time nor sockets.
 *
 * The order is the same on every node, so that the nodes that lost their leader
 * meet at one place: the endpoints of the list, then the addresses of the
 * voters, as the leader told them; last the place that was in hand, if it is in
 * neither. A launcher whose leader does not answer asks all places at once what
 * they know (candidates_saw). candidates_choose says what follows:
 *
 *   1. a place that leads: of several the one with the highest term;
 *   2. else the first place in the order that answers, once those before it
 *      have failed or have had their time to answer;
 *   3. and if no leader comes of that, the place that most voters reach, since
 *      a majority can meet there if it can meet anywhere; of several the first
 *      in the order.
 */
#ifndef LAUNCHER_AGENT_CANDIDATES_H
#define LAUNCHER_AGENT_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/proto/msg.h"

#define CANDIDATES_ADDR_MAX      72 /* of msg_serves.addr */
#define CANDIDATES_ENDPOINTS_MAX 16
#define CANDIDATES_MAX           (CANDIDATES_ENDPOINTS_MAX + MSG_VOTERS_MAX + 1)

enum candidates_state {
    CANDIDATES_UNSEEN,  /* no answer yet */
    CANDIDATES_FAILED,  /* refused, or the connection broke */
    CANDIDATES_ANSWERS, /* a server is there, and does not lead */
    CANDIDATES_LEADS,
};

/* What a place answered. */
struct candidates_seen {
    enum candidates_state state;
    struct term term; /* LEADS: its leader's */
    int reached; /* voters that look for a leader there, as its server knows */
    int asked;   /* so often since it answered */
    bool barred; /* it refused this node: unless it leads it has failed */
};

/* The caller's storage; the fields are the unit's own. Places are counted from
 * 0, in the order above. */
struct candidates {
    int endpoints;
    int others; /* ... and so many addresses behind them */
    char addrs[MSG_VOTERS_MAX + 1][CANDIDATES_ADDR_MAX + 1];
    bool unlisted; /* the last of `addrs` is no voter's */
    int at;        /* the place in hand */
    int moves;     /* how often a server sent it on since it had a lease */
    struct candidates_seen seen[CANDIDATES_MAX];
};

/* The first of `endpoints` (at least 1) is in hand. */
void candidates_init(struct candidates *c, int endpoints);

/* The voters' addresses, as in msg_voters.addrs; they take the place of those
 * known. What is no address is left out. The place in hand stays in hand, and
 * in the order. True: the list has changed; what was seen is forgotten. */
bool candidates_learn(struct candidates *c, const char *addrs);

/* "ADDR:PORT" with a port from 1 to 65535, and short enough. */
bool candidates_is_addr(const char *addr);

int candidates_count(const struct candidates *c);
bool candidates_has_voters(const struct candidates *c);
int candidates_at(const struct candidates *c); /* the place in hand */
/* "ADDR:PORT" of a place, or "": it is the endpoint of that number. */
const char *candidates_addr(const struct candidates *c, int place);
/* The same of the place in hand, and which endpoint that is; 0: none. */
const char *candidates_target(const struct candidates *c);
int candidates_which(const struct candidates *c);

/* That place is in hand. */
void candidates_take(struct candidates *c, int place);
/* It gave a lease. */
void candidates_served(struct candidates *c);
/* A server says that the run is served at `addr` (candidates_is_addr): that
 * place is in hand. True: it is not the first one to say so since the last
 * lease; a pause is due before the place is tried. */
bool candidates_moved(struct candidates *c, const char *addr);

/* -- a search -------------------------------------------------------------- */

/* Nothing is seen yet. */
void candidates_forget(struct candidates *c);
/* A place is asked. The last of several that it did not answer counts as
 * failed: it may have fallen silent since. */
void candidates_ask(struct candidates *c, int place);
void candidates_saw(struct candidates *c,
                    int place,
                    const struct candidates_seen *seen);
void candidates_failed(struct candidates *c, int place);
/* Its server refuses this node, for the rest of the search. */
void candidates_bar(struct candidates *c, int place);

/* Names places that do not answer, for people, as far as `size` allows:
 * "10.0.0.2:4012, 10.0.0.3:4012 and 2 more". Returns how many they are. */
int candidates_unreached(const struct candidates *c, char *text, size_t size);

/* How far the search is. */
enum candidates_stage {
    CANDIDATES_WAITS,   /* places may still answer */
    CANDIDATES_SETTLED, /* each of them has had its time */
    CANDIDATES_COUNTED, /* ... and was asked again since: `reached` counts */
};

/* The place to join (see above), -1: none is known yet. */
int candidates_choose(const struct candidates *c, enum candidates_stage stage);

/* Asserts that the fields fit together. */
void candidates_check(const struct candidates *c);

#endif
