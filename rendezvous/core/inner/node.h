/*
 * core/inner/node: inside the rendezvous core: what the server remembers of a
 * run and its nodes, the table of nodes by agent id, and telling. Nothing
 * outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_NODE_H
#define RENDEZVOUS_CORE_INNER_NODE_H

#include "rendezvous/base/quota.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/budget.h"
#include "rendezvous/core/ranks.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/proto/exits.h"

enum node_state {
    NODE_WAITING, /* wants a place in the next round; no worker runs there */
    NODE_SPARE,   /* the same, beside a round that runs: it is full, or
                     will be made larger when --scale_interval is over */
    NODE_QUARANTINED, /* a spare of last resort (strikes.h) */
    NODE_RUNNING,     /* in the sealed round */
    NODE_DONE,        /* in it, all its workers exited 0 */
    NODE_STOPPING,    /* in it, told to stop, has not said ready */
    NODE_LEAVING,     /* said that it goes; its workers may still be there */
    NODE_STALE,       /* holds an old round, was told to stop it */
    NODE_DRAINED,     /* was told to go, and runs no workers */
    NODE_ENDING,      /* was told of the end, has not said bye */
    NODE_STATES
};

struct node {
    bool used;
    enum node_state state;
    int run;
    int source;      /* of its first connection */
    int conn;        /* -1: absent, its connection broke ... */
    int64_t away_us; /* ... then */
    int prev, next;  /* in the run's list, by arrival; -1 ends it */
    int hash_next;   /* in the table by agent id */
    char agent[RNG_ID_LEN + 1];
    char name[65];
    char role[65];
    char addr[65];      /* where other nodes reach it */
    char here_addr[65]; /* the server's address of its connection */
    bool hosts;
    bool drained; /* an operator takes it out; it is told so until it goes */
    char drained_by[65];
    bool wants_members; /* it is told of them when it is group rank 0 */
    int nproc;
    int port;
    int asked_rank;
    int64_t arrival;
    int64_t since_us;       /* when it came */
    int64_t lease_until_us; /* the longest grant that may still be out */
    bool owes_bye;          /* was told of an end that is not final */
    bool confirmed;         /* it said that it holds the round of run->round */
    int64_t short_seq;      /* grants from this one on were short; -1: the
                               last one was long */
    int64_t quarantined_until_us; /* its cool-down; in the past: it has none */
    int64_t stale_round;          /* STALE: the one that it was told to stop */
    int64_t roll;    /* what stands for it in the roll of a round */
    bool came_ready; /* it had been in a round of the run's instance when
                        it came, and was ready for the next one */
    /* Its place in the round of run->round; group_rank -1: not in it. */
    int group_rank;
    int base_rank;
    int role_rank;
    int role_world;
};

/* The failure that a run's report will name. */
struct failure {
    bool known;
    int64_t round;
    int64_t at_us; /* on the server's clock */
    struct msg_failed what;
    char node[65];
    char agent[RNG_ID_LEN + 1];
};

/*
 * What the members of a rebuilt round tell of rounds that a server before us
 * may have sealed since. A node whose lease was over since may have been left
 * out of any number of rounds. One that was ready for the next round, and whose
 * lease was not, may have missed one, of which it would be a member. One that
 * was not even ready proves that there was none.
 */
enum anchor {
    ANCHOR_NONE,
    ANCHOR_READY,
    ANCHOR_HELD
};

enum run_state {
    RUN_GATHER,
    RUN_ACTIVE,
    RUN_DRAIN,
    RUN_ENDED
};

/* A node that is gone without a word. */
struct loss {
    char node[65]; /* "": there was none */
    char how[81];
    int64_t at_us;
};

/* The instances that a run had before the one that it has: of newcomers that
 * gave way, and its own where no round of it was sure any more. Nodes of these
 * may be about. Of more than so many the oldest ones are forgotten. */
#define FORMER_MAX 8
struct former {
    int known; /* ever; the newest one stands at (known - 1) % FORMER_MAX */
    char instance[FORMER_MAX][RNG_ID_LEN + 1];
};

/* --node_strikes (strikes.h): at most one node of a run has a streak. */
struct strikes {
    int max;                    /* K; 0: off */
    int64_t cooldown_us;        /* how long a node is quarantined */
    int count;                  /* failures in a row ... */
    char agent[RNG_ID_LEN + 1]; /* ... of this node */
    int64_t check_us;           /* no cool-down ends before this */
};

struct run {
    bool used;
    enum run_state state;
    int source; /* of its first node; -1 once it has ended */
    char id[129];
    char instance[RNG_ID_LEN + 1]; /* "" before the first round */
    int64_t born_us;               /* when it had that; NEVER: not known */
    struct former former;
    char prog[129];
    char backend[17];
    int nodes_min, nodes_max;
    int64_t join_us, last_call_us, heartbeat_us, reconnect_us, scale_us;
    struct budget budget;
    struct strikes strikes;

    int64_t round;       /* the last one sealed, 0: none */
    bool host_is_silent; /* the node whose launcher serves us was lost by its
                            lease. It lives, since we would end with it, and
                            wants us when it is thawed */
    int64_t passed;      /* the highest one of other instances, of which nodes
                            here may still say something */
    bool was_over;       /* a server before us knew that all its workers are
                            dead, also those of nodes that do not come */
    bool rebuilt;        /* it was sealed by a server that is no more ... */
    enum anchor anchor;  /* ... and what is known of later rounds of that */
    int ready_members;   /* of it, that came ready for the next one */
    int64_t rebuilt_at_us;
    int confirmed; /* nodes of it that have said that they hold it */
    int group_world, world_size; /* of that round */
    int64_t roll;                /* of that, too: the sum of its nodes', or 0 */
    int64_t roll_at_us;          /* when to see whether all have come */
    char master_addr[65];
    int master_port;

    int head, tail; /* its nodes */
    int count[NODE_STATES];
    int absent;    /* nodes with conn -1 */
    int gone_done; /* nodes of the round that were DONE and are gone */
    int holes;     /* nodes of a rebuilt round that did not show up */

    bool charged;               /* the round ended by a failure ... */
    bool lost_since;            /* ... and a node was found lost since */
    bool progressed;            /* some worker of it had made progress */
    enum msg_graceful graceful; /* how its workers were told to stop */
    struct msg_ready ends;      /* how its workers ended, as far as is known:
                                   how many, and who, as proto/exits.h has it */
    char exits_list[EXITS_LIST_MAX + 1], stopped_list[EXITS_LIST_MAX + 1];
    struct loss loss; /* the first one since it was sealed */
    struct failure root;
    struct failure last; /* of this round or an earlier one, to be shown */

    int64_t opened_us, ended_us;
    int64_t sealed_us;     /* when the round was sealed ... */
    int64_t over_us;       /* ... and over */
    int64_t scale_next_us; /* no newcomer makes a round larger before */
    int64_t gather_since_us;
    int64_t seal_at_us;    /* end of the last call, MONO_NEVER: none runs */
    int64_t mailbox_at_us; /* when to tell those who wait who is missing */
    /* Of a run that ENDED: */
    bool lapsed; /* since nobody came; nobody was there to be told, either */
    struct msg_end end;   /* also for stragglers */
    int owing;            /* nodes that are connected and owe a bye */
    int64_t settle_at_us; /* the end is final then, MONO_NEVER: it is */
    int64_t forget_at_us;
};

struct rdzv {
    struct rdzv_limits limits;
    struct run *runs;
    struct node *nodes;
    int *conn_node;     /* by connection: its node, or -1 */
    int *buckets;       /* by hash of agent id: first node, or -1 */
    uint32_t n_buckets; /* a power of two */
    int free_node;      /* list of nodes that were used, by hash_next */
    int fresh_node;     /* nodes from this one on were never used */
    int n_nodes;
    int64_t arrivals;
    int64_t lease_check_us; /* no lease ends before this */
    struct rng rng;
    struct ranks_node *places, *scratch; /* room for nodes_max */
    uint8_t *taken; /* runs_max bitmaps of nodes_max bits: the places of a
                       rebuilt round that were claimed, be it by a node that is
                       lost by now */
    int64_t noted[NOTE_COUNT]; /* how often each thing was told */
    int64_t charged;           /* restarts, of all runs */
    struct quota *node_sources, *run_sources;
    /* For the step that runs: */
    int64_t now_us;
    const char *account; /* whose doing it is: a source or an address */
    const struct rdzv_actions *out;
};

/* Fills the table of an empty server. */
void node_init(struct rdzv *r);

/* NULL where there is none; node_at gives NULL for -1. `run` is an id: nodes
 * of a run that ended are found too. */
struct node *node_at(const struct rdzv *r, int i);
struct node *
node_find(const struct rdzv *r, const char *run, const char *agent);

/* A node for the join in `ev`, waiting, bound to its connection, and the last
 * of the run's list. There must be a free one. */
struct node *
node_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev);

/* Where it is, as the join in `ev` tells: it may have moved since its last one.
 * True: the others reach it elsewhere than before. */
bool node_set_address(struct node *n, const struct rdzv_event *ev);

/* Drops its connection too. */
void node_remove(struct rdzv *r, struct node *n);

/* The run's counts of states and of absent nodes follow. A node that is bound
 * is told things by that connection; one that is not is absent. */
void node_set_state(struct rdzv *r, struct node *n, enum node_state state);
void node_bind(struct rdzv *r, struct node *n, int conn);
void node_unbind(struct rdzv *r, struct node *n);

/* It said bye, or cannot any more. */
void node_clear_bye(struct rdzv *r, struct node *n);

/* Sums of nodes' rolls stay in this. */
#define ROLL_MASK ((INT64_C(1) << 52) - 1)

/* Whether it has a place in the round of run->round. */
bool node_in_round(const struct node *n);

/* It holds a round that is none any more: makes it STALE and tells it to stop
 * that. `ready` and `failed` bear the number of a round alone: no round to come
 * has this one. */
void node_make_stale(struct rdzv *r,
                     struct node *n,
                     int64_t round,
                     const char *why);

/*
 * Renews its lease and tells it so, as the answer to its beat `seq`; `heard`
 * is the last grant that it said it got on this connection, or -1.
 */
void node_grant(struct rdzv *r, struct node *n, int64_t seq, int64_t heard);

/* It says which round it holds. */
void node_confirm(struct rdzv *r, struct node *n, int64_t round);

/* Its lease is to end no later than so long from now: for a node that has no
 * workers, whose loss can hurt nobody. */
void node_cut_lease(struct rdzv *r, struct node *n, int64_t lease_us);

int run_index(const struct rdzv *r, const struct run *run);

/* Where it comes from, for people. */
const char *node_source(const struct rdzv *r, const struct node *n);

/* Whether a numeric address is one that only its own host reaches. */
bool node_is_loopback(const char *addr);

/* -- telling -------------------------------------------------------------- */

/* Nothing is sent to a node that is absent. */
void node_send(struct rdzv *r, const struct node *n, const struct msg *m);
void node_send_stop(struct rdzv *r,
                    const struct node *n,
                    int64_t round,
                    const char *why,
                    enum msg_graceful graceful);
void node_send_drain(struct rdzv *r, const struct node *n);

/* The same to a connection, be it a node's or not. One that is dropped is
 * closed once what was sent is out, and is nobody's from now on. */
void reply_send(struct rdzv *r, int conn, const struct msg *m);
void reply_drop(struct rdzv *r, int conn);

/* Tells people, and counts: the text, which may be cut, says what the event's
 * name does not. `node` may be "". */
void note(struct rdzv *r,
          enum note_kind kind,
          const struct run *run, /* may be NULL */
          const char *node,
          const char *fmt,
          ...) __attribute__((format(printf, 5, 6)));

/* Tells group rank 0, where it asked for that, at which addresses the members
 * of the round are; in front of its world. */
void node_send_members(struct rdzv *r,
                       const struct run *run,
                       const struct node *to);

#endif
