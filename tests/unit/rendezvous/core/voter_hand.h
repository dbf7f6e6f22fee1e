/*
 * tests/unit/rendezvous/core/voter_hand: agents of a run, as they ought to be:
 * each promises, accepts and remembers by the rule, and answers by itself. So a
 * test says only who comes, goes, beats. Agent i is on connection i.
 *
 * There is one server at a time (rdzv_hand); serve() begins another one, whose
 * terms bear another id.
 */
#ifndef VOTER_HAND_H
#define VOTER_HAND_H

#include "rendezvous/core/inner/authority/authority.h"
#include "tests/unit/rendezvous/core/rdzv_hand.h"

#define VOTERS 8

struct voter {
    bool here;   /* its connection is up */
    bool silent; /* it answers nothing by itself */
    struct term promised;
    bool shown; /* its server has shown that it leads */
    int64_t seq, heard;
    int64_t lease_until_us;
    int64_t answered_us;        /* the last lease, prepare, voters; 0: none */
    struct msg_voters accepted; /* round 0: none */
    struct msg_world pending;   /* round 0: none */
    struct msg_world holds;     /* round 0: none */
    bool runs;                  /* workers of it */
    bool ready;                 /* it has none any more */
    bool ended;                 /* it was told so, by ... */
    struct term ended_by;
    int status;
};
extern struct voter voters[VOTERS];
/* What each was told last of where voters are. */
extern char told_addrs[VOTERS][sizeof(((struct msg_voters *)0)->addrs)];

/* ... and why the last one of them took a line of its own. */
extern char told_without[sizeof(((struct msg_prepare *)0)->without)];

/* A server without memory, of that id (1, 2, ...); all connections are gone. */
void serve(int id);

/* Agent i joins, with all that it knows; all that follows is answered. */
void come(int i);
void come_all(int from, int to);

/* What an agent is called; and the voters of that row, "012": 0, 1 and 2. */
const char *voter_id(int i);
const char *voter_ids(const char *row);

/* The join of an agent that knows nothing; may be changed before it is said. */
struct msg voter_join(int i);

/* Agent i says that it accepts a round of this server's first term. */
void accepts(int i, int64_t round);
/* ... and that it obeys that. */
void promise_of(int i);

/* Agent i was elsewhere: it has promised a server of that count; it was told to
 * end by the one that it promised last, and holds that. */
void promised_elsewhere(int i, int64_t count);
void was_told_to_end(int i, int status);
#define ELSEWHERE "00000000000000ff" /* that server's id */

/* Its connection breaks; or it is dead, and its guard says farewell. */
void breaks(int i);
void dies(int i);
struct msg last_word(int i); /* the farewell */

/* The server has closed all connections. */
void all_dropped(void);

/* The clock goes on by `us`, and agents that are here beat every 100 ms. */
void goes_on(int64_t us);

/* A run of min..max in round 1 of agents 0 to n-1, at server 1. Returns the
 * newest round, which all of them run. */
int64_t round_of(int n, int min, int max);

/* The same, and all have accepted the next round, and do not know that it was
 * in force: nobody runs. Returns that round. */
int64_t doubt_of(int n, int min, int max);

/* Round 1 of min..3 is proposed by server 1 to agents 0 to 2, which are silent:
 * none has accepted it. */
void propose_to_three(int min);

/* How many run workers of the newest round that any of them runs, on a lease.
 */
int running(void);
int64_t newest_round(void);

/* Agent i is told to stop and has: ready of what it holds. */
void is_ready(int i);

#endif
