/*
 * core/inner/state/office: inside the rendezvous core: who has the authority
 * over a run, in numbers: voters, epochs, promises, echoes,
 * proposals. It sends nothing and knows no nodes; takeover.c and propose.c act
 * by it. Nothing outside rendezvous/core includes this.
 *
 * The rule, clause by clause (ddprun-protocol(7), "Who leads", has its proof):
 *
 *   ask     A server asks for promises only if more than half of the voters of
 *           the newest round are here, and, unless that is known to be in
 *           force, of the last round in force before it (office_may_ask).
 *   win     It is in office once more than half of both have promised
 *           (office_is_won).
 *   act     What it grants ends a lease after the sending of a message that
 *           half of the voters have answered since (office_until_us).
 *   wait    A server that took office waits for what earlier ones may have
 *           granted (office_foreign_us).
 *   force   A proposed round is in force once half of its voters and half of
 *           those of the last round in force have accepted it; of the newest
 *           round, too, if the server found it and does not know that it is in
 *           force (office_is_in_force). Until the first round is in force the
 *           voters of the first proposal stand for the last one.
 *   struck  Of a voter that said farewell nothing more can come: from then on
 *           it counts on neither side of a fraction, nor does what it had said
 *           (office_strike). What it had accepted counts as told. Of a set in
 *           which nobody lives nobody is elected; half of none is none.
 *   order   An operator may say that the voters that are missing are dead: each
 *           of them is none until it comes, and the others decide
 *           (office_give_up). Nothing proves it; that is why an operator has to
 *           say it.
 *
 * States:
 *
 *     SEEKS --- office_ask ---> ASKED --- office_win ---> HELD
 *       ^                         |  ^---- office_ask -----|
 *       +------ office_resign ----+------------------------+
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_OFFICE_H
#define RENDEZVOUS_CORE_INNER_STATE_OFFICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/proto/msg.h"

/* An epoch begins whenever a server takes office; no two are equal. */
struct epoch {
    int64_t count;              /* 0: none */
    char id[MSG_VOTER_LEN + 1]; /* the server */
};

struct epoch epoch_make(int64_t count, const char *id);

/* < 0, 0, > 0: by count, then by server. */
int epoch_cmp(const struct epoch *a, const struct epoch *b);

/* The voters of a round, by the first digits of their agents' ids. */
struct voters {
    int n;
    char id[MSG_VOTERS_MAX][MSG_VOTER_LEN + 1];
};

/* As in messages: each id followed by a blank. False, and `v` is empty: there
 * is an id that none can be, one twice, or there are too many. */
bool voters_parse(struct voters *v, const char *text);
#define VOTERS_TEXT_SIZE (MSG_VOTERS_MAX * (MSG_VOTER_LEN + 1) + 1)
void voters_print(const struct voters *v, char text[VOTERS_TEXT_SIZE]);

/* Whether an agent of that id can vote. */
bool voters_may_add(const char *agent);

/* Where the agent's vote is in `v`, -1: it has none. */
int voters_find(const struct voters *v, const char *agent);

/* One more; there must be room. */
void voters_add(struct voters *v, const char *agent);

enum office_state {
    OFFICE_SEEKS, /* it obeys nobody and nobody obeys it */
    OFFICE_ASKED, /* it has asked for promises of `epoch` */
    OFFICE_HELD   /* it is in office */
};

/* NOW: the voters of the newest round that is known; before there is a round,
 * of the first proposal. BEFORE: while that round is in doubt, the voters of
 * the last round in force. NEXT: the voters of what is proposed. */
enum office_set {
    OFFICE_NOW,
    OFFICE_BEFORE,
    OFFICE_NEXT,
    OFFICE_SETS
};

struct vote {
    char id[MSG_VOTER_LEN + 1];
    bool here;     /* it is connected, and has told what it accepted */
    bool promised; /* to obey `epoch` */
    bool struck;   /* it said farewell */
    bool left;     /* it goes: nobody waits for it; a voter until then */
    bool given_up; /* an operator says that it is dead; it was not here since */
    bool accepted; /* what is proposed */
    bool bye;      /* it knows of the run's end */
    bool asked; /* an `office` is on its way to it, or its promise back ... */
    int64_t asked_us; /* ... which was sent then */
    int64_t echo_us;  /* when the newest message was sent that it answered */
};

#define OFFICE_VOTES_MAX (OFFICE_SETS * MSG_VOTERS_MAX)

struct office {
    enum office_state state;
    struct epoch epoch; /* ASKED, HELD */
    int64_t heard;      /* the highest count that any node told */

    /* The newest round that is known, and the epoch in which it was proposed;
     * 0: there was none yet. */
    int64_t round;
    struct epoch round_epoch;

    bool pending; /* NEXT is proposed, in `epoch` */
    int64_t next_round;
    int64_t proposed_us;

    int64_t foreign_us; /* no message of an earlier server came in later */

    struct voters sets[OFFICE_SETS];
    int n_votes; /* of all three, each once */
    struct vote votes[OFFICE_VOTES_MAX];
    uint8_t vote_of[OFFICE_SETS][MSG_VOTERS_MAX]; /* the places in `votes` */
};

/* A run that no server is known to have: no voters, SEEKS. */
void office_init(struct office *o);

/* -- what is heard --------------------------------------------------------- */

/* Counts beyond this are not believed: numbers end at 10^12. */
#define OFFICE_COUNT_MAX INT64_C(999000000000)

/* A node told of this epoch. */
void office_hear(struct office *o, const struct epoch *epoch);

/*
 * A node told of a round that it accepted in that epoch, and of its voters:
 * true if that is the newest one that is known now. Who is here has to be said
 * again then. `before` is empty if the round is in force.
 */
bool office_adopt(struct office *o,
                  const struct epoch *epoch,
                  int64_t round,
                  const struct voters *now,
                  const struct voters *before);

/* Whether a round of that epoch is newer than the newest one that is known. */
bool office_is_newer(const struct office *o,
                     const struct epoch *epoch,
                     int64_t round);

/* The newest round is in force, as one of its members tells. */
void office_confirm(struct office *o);
bool office_is_confirmed(const struct office *o);

/* The last message of an earlier server came in at `at_us` somewhere. */
void office_hear_foreign(struct office *o, int64_t at_us);

/* -- voters come and go; nothing if the agent has no vote ------------------ */

void office_here(struct office *o, const char *agent);
void office_away(struct office *o, const char *agent);

/*
 * The agent said farewell, and all that it had told is noted: it is no living
 * voter any more, in whatever set, for good. The server must not be in office,
 * nor ask for promises, in a lower epoch than the agent had promised: it would
 * count fewer voters than the server of the higher one, and the two need not
 * meet.
 */
void office_strike(struct office *o, const char *agent);

/* The agent says that it goes. */
void office_leave(struct office *o, const char *agent);

/* An operator says that the voters that are not here are dead: from now on each
 * of them is none, until it comes. They may have promised epochs that nobody
 * here knows of: the next one is OFFICE_LEAP higher. */
#define OFFICE_LEAP 1000
void office_give_up(struct office *o);

/* The agent obeys another server by now. */
void office_lose(struct office *o, const char *agent);

/* Its vote, or NULL. */
const struct vote *office_vote(const struct office *o, const char *agent);

/* -- taking office --------------------------------------------------------- */

bool office_may_ask(const struct office *o);

/* Takes an epoch that is higher than all that were heard of. What voters
 * promised, answered and accepted before is void. */
void office_ask(struct office *o, const char *server);

/* An `office` is sent to the agent now. False: the last one is not answered
 * yet, so that none may be sent. A promise answers one. */
bool office_asks(struct office *o, const char *agent, int64_t now_us);
void office_promise(struct office *o, const char *agent); /* it is here */
bool office_is_won(const struct office *o);
void office_win(struct office *o);
void office_resign(struct office *o);

/* -- being in office ------------------------------------------------------- */

/* It answered a message that was sent at `sent_us`. Counts if it promised. */
void office_echo(struct office *o, const char *agent, int64_t sent_us);

#define OFFICE_NO_ECHO (INT64_MIN / 4)

/* Half of the voters have answered a message that was sent at this time or
 * later. `now_us` if there are no voters. */
int64_t office_echo_us(const struct office *o, int64_t now_us);

/* A lease of `lease_us` may be granted until then; in the past: none may. */
int64_t
office_until_us(const struct office *o, int64_t now_us, int64_t lease_us);

/* Whether any lease may be granted now. */
bool office_may_act(const struct office *o, int64_t now_us, int64_t lease_us);

/* Until when leases of earlier servers may be out. */
int64_t office_foreign_us(const struct office *o, int64_t lease_us);

/* All voters of the newest round, but for those that are dead or given up. */
bool office_all_are_here(const struct office *o);

/* -- proposals ------------------------------------------------------------- */

void office_propose(struct office *o,
                    int64_t round,
                    const struct voters *next,
                    int64_t now_us);
/* The agent has stored this round, which was proposed in `epoch`. */
void office_accept(struct office *o, const char *agent, int64_t round);
bool office_is_in_force(const struct office *o);
void office_commit(struct office *o);
void office_abandon(struct office *o);

/* -- the end --------------------------------------------------------------- */

void office_bye(struct office *o, const char *agent);

/* Half of the voters know of it. */
bool office_end_is_known(const struct office *o);

/* -- for people ------------------------------------------------------------ */

/* Too few are here to take office, or to act in it. */
bool office_lacks_voters(const struct office *o);
/* Of the newest round's. */
int office_count_here(const struct office *o);
int office_count_struck(const struct office *o);
int office_count_echoes(const struct office *o, int64_t since_us);

/* Asserts what holds between two steps. */
void office_check(const struct office *o);

#endif
