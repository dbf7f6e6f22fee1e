/*
 * core/inner/authority: inside the rendezvous core: who has the authority over
 * a run. The rest of the core asks: may a lease be granted, and until when; is
 * a round in force; who is dead. It tells what launchers say, proposes rounds,
 * and says that the run has ended. This folder asks nothing back: it knows
 * launchers, terms and the numbers of rounds, no nodes and no messages, and
 * includes nothing of the folders above. Nothing outside rendezvous/core
 * includes this.
 *
 * The rule, clause by clause (ddprun-protocol(7), "Who leads", has its proof):
 *
 *   election    A server asks for promises only if more than half of the voters
 *               of the newest round are here, and, unless that is known to be
 *               in force, of the last round in force before it. It leads once
 *               more than half of both have promised.
 *   commit      A proposed round is in force once half of its voters and half
 *               of those of the last round in force have accepted it; of the
 *               newest round, too, if the leader found that and does not know
 *               that it is in force. Until the first round is in force the
 *               voters of the first proposal stand for the last one, and all of
 *               them have to accept it.
 *   one world   A leader waits for what earlier ones may have granted
 *               (authority_leases.earlier_us).
 *   lease       What it grants ends a lease after the sending of a message that
 *               half of the voters have answered since.
 *   farewell    Of a voter that said farewell nothing more can come: from then
 *               on it counts on neither side of a fraction, nor does what it
 *               had said. What it had accepted counts as told. Of a set in
 *               which nobody lives nobody is elected; half of none is none.
 *   go-on       An operator may say that the voters that are missing are dead:
 *               each of them is none until it comes, and the others decide.
 *               Nothing proves it; that is why an operator has to say it.
 *   strict      Of a run that needs more than half of its nodes two groups
 *               cannot exist: a leader needs nodes_min launchers as well,
 *               voters or not. A lease without them breaks the line of its
 *               terms; then so many begin another one, by count, with the
 *               voters or without (launchers_priv.h).
 *
 * States, and what leads from one to another:
 *
 *     FOLLOWER --- campaign ---> CANDIDATE --- advance: enough promised
 *       ^  ^                      |  ^                           |
 *       |  +------- resign -------+  +---- campaign ---- LEADER <+
 *       +------------------------- resign ------------------+
 */
#ifndef RENDEZVOUS_CORE_INNER_AUTHORITY_AUTHORITY_H
#define RENDEZVOUS_CORE_INNER_AUTHORITY_AUTHORITY_H

#include "rendezvous/core/inner/authority/voters.h"

enum authority_state {
    AUTHORITY_FOLLOWER,  /* it obeys nobody and nobody obeys it */
    AUTHORITY_CANDIDATE, /* it has asked for promises of `term` */
    AUTHORITY_LEADER
};

/* NOW: the voters of the newest round that is known; before there is a round,
 * of the first proposal. BEFORE: while that round is in doubt, the voters of
 * the last round in force. NEXT: the voters of what is proposed. */
enum authority_set {
    AUTHORITY_NOW,
    AUTHORITY_BEFORE,
    AUTHORITY_NEXT,
    AUTHORITY_SETS
};

struct vote {
    char id[MSG_VOTER_LEN + 1];
    bool here;       /* it is connected, and has told what it accepted */
    bool promised;   /* to obey `term` */
    bool dead;       /* it said farewell */
    bool left;       /* it goes: nobody waits for it; a voter until then */
    bool given_up;   /* it counts as dead; it was not here since */
    bool accepted;   /* what is proposed */
    bool bye;        /* it knows of the run's end */
    int64_t echo_us; /* when the newest message was sent that it answered */
};

#define AUTHORITY_VOTES_MAX (AUTHORITY_SETS * MSG_VOTERS_MAX)

/* A launcher, voter or not. It lies in its node, and is GONE before that is. */
struct launcher {
    char id[MSG_VOTER_LEN + 1];
    struct term term;    /* the highest that it promised to obey */
    int64_t answered_us; /* when it last answered another server than this one;
                            AUTHORITY_NO_ECHO: never */
    /* Kept by the authority: */
    int64_t counted; /* the count of the term in which it counts; 0: in none */
    bool is_among;   /* the nodes_min newest, or all where there are fewer */
    int64_t echo_us; /* when the newest message was sent that it answered;
                        AUTHORITY_NO_ECHO: none, and it is not in the order */
    struct launcher *newer, *older;
};

struct launchers {
    int answered;                     /* that count, in the term */
    struct launcher *newest, *oldest; /* ... by their newest answer */
    struct launcher *least; /* so that nodes_min have answered as late, or
                               later; NULL: fewer have */
};

/* Leaders wait for a whole lease; what a node is granted is less by this, for
 * its time to kill and for clocks that differ. */
#define AUTHORITY_MARGIN_US(lease_us) ((lease_us) / 5)

/* What the run needs. */
struct authority_rules {
    int64_t lease_us;
    int nodes_min;
    bool strict; /* two groups of nodes_min cannot exist */
};

struct authority {
    struct authority_rules rules;
    enum authority_state state;
    struct term term; /* CANDIDATE, LEADER */
    int64_t heard;    /* the highest count that any node told */

    /* The newest round that is known, and the term in which it was proposed;
     * 0: there was none yet. */
    int64_t round;
    struct term round_term;
    bool in_doubt; /* it is not known to be in force */

    bool pending; /* NEXT is proposed, in `term` */
    bool alone;   /* ... to one launcher, which is all that ever voted: it has
                     accepted without a word */
    int64_t next_round;
    int64_t proposed_us;

    int64_t earlier_us; /* no message of an earlier server came in later */
    bool by_count; /* the term begins a line: launchers have to promise that */
    bool ended;

    int64_t line_until_us; /* of a strict run: nobody can begin another line
                              before */

    struct voters sets[AUTHORITY_SETS];
    int n_votes; /* of all three, each once */
    struct vote votes[AUTHORITY_VOTES_MAX];
    uint8_t vote_of[AUTHORITY_SETS][MSG_VOTERS_MAX]; /* the places in `votes` */
    struct launchers launchers;
};

#define AUTHORITY_NO_ECHO (INT64_MIN / 4)

/* A run that no server is known to have: no voters, FOLLOWER. */
void authority_init(struct authority *a, const struct authority_rules *rules);

/* -- what is heard --------------------------------------------------------- */

enum authority_word {
    AUTHORITY_TERM,     /* it tells of a term of that count */
    AUTHORITY_OBEYS,    /* its launcher.term has changed */
    AUTHORITY_DESERTS,  /* it obeys another server by now */
    AUTHORITY_HERE,     /* it is connected, and has told what it accepted */
    AUTHORITY_AWAY,     /* not any more; it may come back */
    AUTHORITY_GONE,     /* the node is removed */
    AUTHORITY_PROMISE,  /* it obeys the server's term; it answers a message that
                           was sent at this time */
    AUTHORITY_ANSWER,   /* the same of who has promised */
    AUTHORITY_ACCEPT,   /* it has stored the round of this number, which was
                           proposed in the server's term */
    AUTHORITY_RUNS,     /* it was told to go in the round of this number */
    AUTHORITY_LEAVES,   /* it says that it goes */
    AUTHORITY_HOLDS,    /* ... a lease until then, from who led before */
    AUTHORITY_FAREWELL, /* it is dead, and all that it told is noted. The server
                           must not lead, nor ask for promises, in a lower term
                           than the launcher had promised: it would count fewer
                           voters than the server of the higher one, and the two
                           need not meet */
    AUTHORITY_BYE       /* it knows of the run's end */
};

/* A launcher says that, or it becomes of it. `value` is a time, the number of
 * a round or a count, where the word has one. */
void authority_hear(struct authority *a,
                    struct launcher *l,
                    enum authority_word word,
                    int64_t value,
                    int64_t now_us);

/* What a launcher told of the newest round that it accepted. */
struct ballot {
    struct term term;          /* in which it was proposed */
    int64_t round;             /* 0: it accepted none */
    struct voters now, before; /* before: none if it knows that the round is in
                                  force */
    int64_t answered_us;       /* when it last answered another server;
                                  AUTHORITY_NO_ECHO: never, or here */
};

/* True: its round is the newest that is known now. Who is here has to be said
 * again then. A candidate asks no more: others have to promise. The server must
 * not lead. */
bool authority_learn(struct authority *a, const struct ballot *b);

/* -- what follows ---------------------------------------------------------- */

/* Counts beyond this are not believed: numbers end at 10^15. */
#define AUTHORITY_COUNT_MAX INT64_C(999000000000000)
/* The terms of a line: lines are numbered by the age of the run, one for each
 * half of a lease. */
#define AUTHORITY_LEAP        INT64_C(1000000)
#define AUTHORITY_LINE(count) ((count) / AUTHORITY_LEAP)

/* Takes a term that is higher than all that were heard of, and asks for
 * promises (tally.may_campaign). What voters promised, answered and accepted
 * before is void. */
void authority_campaign(struct authority *a, const char *server);

/* The voters that are not here count as dead: from now on each of them is none,
 * until it comes. */
void authority_give_up(struct authority *a);

/* The next term is above all of which nobody here knows, in a run of that age;
 * above those of each line that began before. `by_count`: nodes_min launchers
 * have to promise it, within half a lease. */
void authority_begin_line(struct authority *a,
                          int64_t age_us,
                          bool by_count,
                          int64_t now_us);

/* Whether this server, which leads or would by count, may do nothing in its
 * line any more: nodes_min launchers did not answer for a lease. */
bool authority_is_broken(const struct authority *a, int64_t now_us);

/* Leads no more, and asks for no promises. Nothing may be proposed. */
void authority_resign(struct authority *a);

/* By a leader, if nothing else is proposed. */
void authority_propose(struct authority *a,
                       int64_t round,
                       const struct voters *next,
                       int64_t now_us);

/* What is proposed, if anything, is no more; if the run has `ended` no round
 * follows. */
void authority_abandon(struct authority *a, bool ended);

enum authority_news {
    AUTHORITY_NOTHING,
    AUTHORITY_ELECTED,  /* the candidate leads */
    AUTHORITY_COMMITTED /* what was proposed is in force */
};

/* What has become of it by what was heard. */
enum authority_news authority_advance(struct authority *a, int64_t now_us);

/* -- what is asked --------------------------------------------------------- */

/* AUTHORITY_NO_ECHO: this server does not lead. */
struct authority_leases {
    int64_t
        voters_us;    /* so far the voters vouch for what the leader does ... */
    int64_t until_us; /* ... and in a strict run nodes_min launchers, too: a
                         lease may be granted until then; past: none may */
    int64_t earlier_us; /* leases of earlier leaders may be out until then */
};

struct authority_leases authority_leases(const struct authority *a,
                                         int64_t now_us);

/* Of the voters of the newest round. */
struct authority_tally {
    int voters, here, dead;
    int missing;          /* neither here, nor dead, given up, or leaving */
    int answered;         /* something that was sent at `since_us` or later */
    bool may_campaign;    /* enough are here to be elected */
    bool lacks_voters;    /* too few are, or to act as the leader */
    bool lacks_launchers; /* a strict run's: fewer than nodes_min answered */
    bool end_is_known;    /* to half of them: it is final */
};

/* Asserts what holds between two steps. */
struct authority_tally authority_tally(const struct authority *a,
                                       int64_t since_us);

/* The agent's vote, or NULL. */
const struct vote *authority_vote(const struct authority *a, const char *agent);

#endif
