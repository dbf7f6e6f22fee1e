/*
 * core/inner/state/run: inside the rendezvous core: one run: what is known of
 * it, found by its id, over for good, forgotten. Nothing outside
 * rendezvous/core includes this.
 *
 * Which parts of struct run mean something depends on its state:
 *
 *               conf   gather   round     recovery   report         end
 *     ELECTING  set    -        -         -          -              -
 *     GATHER    set    set      the last  inherited    of the last    -
 *     PENDING   set    (last)   proposed  -          empty, `last`  -
 *     ACTIVE    set    (last)   this      set        empty, `last`  -
 *     DRAIN     set    (last)   this      set        grows          -
 *     ENDED     set*   (last)   the last  (last)     of the last    set
 *
 * (last): what it was when the state was left; only to be shown. *: not in a
 * run that is known from a straggler alone (join.c). states.c checks this table
 * after each step.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_RUN_H
#define RENDEZVOUS_CORE_INNER_STATE_RUN_H

#include "rendezvous/base/mono.h"
#include "rendezvous/core/budget.h"
#include "rendezvous/core/inner/state/node.h"
#include "rendezvous/core/inner/authority/authority.h"
#include "rendezvous/core/inner/state/stands.h"
#include "rendezvous/core/inner/state/steps.h"
#include "rendezvous/core/inner/state/strikes.h"
#include "rendezvous/proto/exits.h"

enum run_state {
    RUN_FREE,     /* a slot that no run uses */
    RUN_ELECTING, /* its nodes hold a round, and this server does not lead */
    RUN_GATHER,
    RUN_PENDING, /* a round is proposed */
    RUN_ACTIVE,
    RUN_DRAIN,
    RUN_ENDED,
    RUN_STATES
};

/* -- what all of its nodes agree on: the first join says it ---------------- */

struct run_conf {
    char options[481]; /* join.options */
    int nodes_min, nodes_max;
    int64_t join_us, last_call_us, heartbeat_us, scale_us;
};

/* -- GATHER ---------------------------------------------------------------- */

struct run_gather {
    int64_t since_us;
    int64_t seal_at_us;   /* end of the last call, MONO_NEVER: none runs */
    int64_t notice_at_us; /* when to tell those who wait who is missing */
    /* The node that was refused last and has not come since, and a sentence
     * about that node for launchers that wait; "": there is none. */
    char refused_node[65], refused[401];
};

/* -- ACTIVE, DRAIN: the last round that was sealed ------------------------- */

/* Why it ended, as far as the budget is concerned. Decided while it drains: a
 * loss that comes to light by then is what the failure was a consequence of. */
enum round_blame {
    BLAME_NONE,   /* it runs, or ended to be made larger */
    BLAME_WORKER, /* a worker failed: a restart is charged */
    BLAME_NODE,   /* a node was lost or went: nothing is charged */
    BLAME_BOTH    /* both: nothing is charged, and people are told so */
};

struct run_round {
    int64_t number; /* 0: no round was sealed yet */
    int group_world, world_size;
    char master_addr[65];
    int master_port;
    int confirmed; /* nodes of it that have said that they hold it */
    int gone_done; /* nodes of it that were DONE and are gone */
    int64_t sealed_us, over_us;
    enum round_blame blame;
    bool progressed;            /* some worker of it had made progress */
    enum msg_graceful graceful; /* how its workers were told to stop */
    bool ran;                   /* all of its workers have been started */
    int64_t sign_us; /* the first sign that not all went well; 0: none */
    char sums[NOTE_SUMS_MAX + 1]; /* what the run's time went to up to its seal,
                                     as the account has it (phase.h) */
};

/* -- a round that a server before us sealed -------------------------------- */

struct run_recovery {
    bool inherited;   /* the round was sealed by a server that is no more ... */
    int holes;        /* ... and so many of it did not show up yet */
    int64_t heard_us; /* the last answer of the server before us that a member
                         tells of; 0: none does */
    int64_t passed; /* the highest round of other instances, of which nodes here
                       may still say something */
};

/* -- what nodes tell a server that does not lead -------------------------- */

/* What beats and joins were granted. */
enum run_grants {
    RUN_GRANTS, /* all that was asked for */
    RUN_OWES,   /* to a node nothing: it is granted a lease as soon as can be */
    RUN_MUTE /* the same, to a beat: half of the voters did not answer for too
                long, and people were told so */
};

struct run_takeover {
    /* Of the newest round that a voter told of (authority.h): */
    char instance[RNG_ID_LEN + 1]; /* "": none did */
    int64_t born_us;
    int group_world;
    int restarts;
    /* The end that a voter told of; status -1: none. */
    int end_status;
    struct term end_term;
    /* The first failure of a worker that was told of; "": none. */
    char failed_agent[RNG_ID_LEN + 1];
    int64_t failed_at_us;
    struct msg_failed failed;

    int64_t notice_at_us; /* when to tell those who wait who is missing */
    int64_t own_us; /* leases of ours may be out until then, of what we knew
                       before another server led */
    /* What takeover.c has to look at: a JOINING node came or went, a node
     * has promised a higher term than ours, a node obeys this server now. */
    bool changed, outbid, obeyed;
    bool ordered;        /* voters were given up: another term begins */
    bool leaps;          /* ... or members: the next round's number leaps */
    int64_t count_at_us; /* launchers that are here may go on by count then;
                            MONO_NEVER: they may not, or need not */
    char without[201]; /* whom they go on without, until a round is in force */
    bool sought;       /* voters of the run look for a leader here */
    bool blocked;      /* GATHER: only voters are waited for */
    int64_t calm_us; /* it could not act, and can again: until then it waits for
                        all voters; MONO_NEVER: it cannot act */
    enum run_grants grants;
    char addrs[sizeof(((struct msg_voters *)0)->addrs)]; /* of the voters */
};

/* -- what the report will say ---------------------------------------------- */

/* A worker's failure, the cause of others. */
struct failure {
    int64_t round; /* 0: there was none */
    int64_t at_us; /* on the server's clock */
    struct msg_failed what;
    char node[65];
    char agent[RNG_ID_LEN + 1];
};

/* A node that is gone without a word. */
struct loss {
    char node[65]; /* "": there was none */
    char how[81];
    int64_t at_us;
};

struct run_report {
    struct failure root; /* of the round; known if that is blamed on a worker */
    struct failure last; /* of this round or an earlier one, to be shown */
    struct loss loss;    /* the first one since the round was sealed */
    /* How the round's workers ended, as far as is known: how many, and who. */
    struct exits_counts ends;
    char exits_list[EXITS_LIST_MAX + 1], stopped_list[EXITS_LIST_MAX + 1];
    char apart[STEPS_APART_MAX]; /* that the round's nodes were not at one
                                      step when a worker failed; "": as far as
                                      is known, they were */
};

/* -- ENDED ----------------------------------------------------------------- */

struct run_result {
    struct msg_end msg; /* also for stragglers */
    int64_t at_us;
    int64_t settle_at_us; /* the end is final then, MONO_NEVER: it is */
    int64_t forget_at_us;
    bool lapsed; /* since nobody came; nobody was there to be told, either */
};

/* -- in all states --------------------------------------------------------- */

struct run {
    enum run_state state;
    char id[129];
    char instance[RNG_ID_LEN + 1]; /* "" before the first round */
    int64_t born_us;               /* when it had that; NEVER: not known */
    int64_t opened_us;
    int64_t scale_next_us; /* no newcomer makes a round larger before */
    bool host_is_silent;   /* the node whose launcher serves us was lost by its
                              lease. It lives, since we would end with it, and
                              wants us when it is thawed */
    struct budget budget;
    struct strikes strikes;
    struct authority authority;
    struct run_takeover takeover;

    int head, tail; /* its nodes, by arrival; -1: none */
    int count[NODE_STATES];
    int absent; /* nodes with conn -1 */

    struct run_conf conf;
    struct run_gather gather;
    struct run_round round;
    struct run_recovery recovery;
    struct run_report report;
    struct run_stands stands;
    struct run_result end;
    enum run_phase told_phase; /* by the last note of that kind ... */
    int64_t told_round;        /* ... and of which round */
    int64_t slow_look_us;      /* its ranks are not compared before */
};

/* Whether it is neither free nor ended. */
static inline bool run_is_live(const struct run *run)
{
    return run->state != RUN_FREE && run->state != RUN_ENDED;
}

/* Finds a run that has not ended; NULL: none. */
struct run *run_find(const struct rdzv *r, const char *id);

/* The base name of what its workers run, as the first join said it. */
const char *run_program(const struct run *run);

/* Of a run whose voters fell silent together: they may have been cut off, and
 * elect another leader, who comes to tell so within a lease and a second more.
 * Then the run begins anew, with newcomers. MONO_NEVER: not so (a voter is
 * here, all are dead, or the run is strict, so that no two groups can exist).
 */
int64_t run_anew_at_us(const struct run *run);

/* Whether nobody is there, nor known to be about to come back. */
bool run_is_abandoned(const struct run *run, int64_t now_us);

/* Whether a newcomer would make the sealed round larger. Not while members are
 * missing, and not once it is about to be done. */
bool run_can_grow(const struct run *run);

/* Fills a message's field: all digits to a member of its last round, the name
 * to others. */
void run_tell_instance(const struct run *run,
                       const struct node *n,
                       char field[MSG_INSTANCE_LEN + 1]);

/*
 * Tells all nodes that the run is over. `end` is copied. It is final once every
 * node that is connected knows of it, or SETTLE_US later: until then none
 * leaves, so that a server which takes over hears of the end from any of them.
 */
void run_end(struct rdzv *r, struct run *run, const struct msg_end *end);
void run_send_end(struct rdzv *r, struct run *run, struct node *n);

/* Whether leases may be granted then, and so whether this server may act. */
static inline bool run_may_act(const struct run *run, int64_t now_us)
{
    return authority_leases(&run->authority, now_us).until_us > now_us;
}

/* Whether the voters vouch for it; a strict run may lack launchers. */
static inline bool run_has_voters(const struct run *run, int64_t now_us)
{
    return authority_leases(&run->authority, now_us).voters_us > now_us;
}

/* How many nodes are connected. */
int run_nodes_here(const struct run *run);

/* The voters that are not here count as dead from now on, and the numbers of
 * rounds leap above those that only they may know of. */
void run_give_up_missing(struct rdzv *r, struct run *run);

/* So do those of terms: a line of them begins (authority_begin_line). */
void run_begin_line(struct rdzv *r, struct run *run, bool by_count);

/* Half of the voters know of the end. */
bool run_end_is_known(const struct run *run);

/* Makes the end final, if it is time to. */
void run_try_settle(struct rdzv *r, struct run *run);

/* Removes a run and its nodes. */
void run_forget(struct rdzv *r, struct run *run);

#endif
