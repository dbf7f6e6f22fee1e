/*
 * tests/lib/votes_hand: for the agent of agent_hand: what leaders
 * say, and how far a run has come that has voters. The
 * round's voters are this agent and two others, at B and C; servers are "s" in
 * term 1, and "t" in all later ones.
 */
#ifndef VOTES_HAND_H
#define VOTES_HAND_H

#include "tests/lib/agent_hand.h"

#define ME    AGENT_HAND_VOTE " "
#define OTHER "00000000000000bb "
#define THIRD "00000000000000cc "
#define ALL   ME OTHER THIRD
#define B     "10.0.0.2:700"
#define C     "10.0.0.3:700"

/* -- what a server says: one message each ---------------------------------- */

void prepare(int64_t count, const char *id);
void voters(int64_t round,
            int64_t count,
            bool pending,
            const char *ids,
            const char *before);
/* What the server at a place answers to a look: it leads in that term (0:
 * nobody does), and so many voters reach it; and that it is not reached. */
void seen(int place, int64_t count, int reached);
void unseen(int place);
/* A world of six, with two workers of the second node. */
void place(int64_t round, int64_t count, bool pending);
void go(int64_t round, int64_t count);
void moved(int64_t count, const char *id, const char *addr);
void refuse(void); /* it has no room */
/* Lets the end be held until others know of it. */
void end_held(int status);
/* The lease that answers the last beat, of 800 ms. */
void answer(void);

/* -- worlds ---------------------------------------------------------------- */

/* Obeys server s, of term 1. */
void obey(void);

/* Round `round` of three is proposed by server s, and accepted. */
void propose(int64_t round, const char *before);

/* Runs round 1, whose voters are three. */
void run_voted(void);

/* 100 ms later its server is killed: the next candidate is tried. */
void server_is_killed(void);

/* ... which is at B, and is elected. */
void succeed(void);

#endif
