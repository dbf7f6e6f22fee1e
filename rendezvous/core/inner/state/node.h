/*
 * core/inner/state/node: inside the rendezvous core: one node of a run, the
 * table of nodes by agent id, and leases. Nothing outside rendezvous/core
 * includes this.
 *
 * In which state of its run a node can be in which state, and what is set then,
 * is a table in states.c that is checked after each step.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_NODE_H
#define RENDEZVOUS_CORE_INNER_STATE_NODE_H

#include "rendezvous/base/rng.h"
#include "rendezvous/core/inner/authority/authority.h"
#include "rendezvous/core/inner/state/slow_ranks.h"
#include "rendezvous/core/pace.h"
#include "rendezvous/core/rdzv.h"

struct run;

enum node_state {
    NODE_FREE,    /* a slot that no node uses */
    NODE_JOINING, /* it came to a server that it does not obey (yet); what it
                    said is noted (struct statement) */
    NODE_WAITING, /* wants a place in the next round; runs no workers */
    NODE_SPARE,   /* the same, beside a round that runs: it is full, or will
                     be made larger when --scale_interval is over */
    NODE_QUARANTINED, /* a spare of last resort (strikes.h) */
    NODE_PENDING,     /* in the round that is proposed */
    NODE_RUNNING,     /* in the sealed round */
    NODE_DONE,        /* in it, all its workers exited 0 */
    NODE_STOPPING,    /* in it, told to stop, has not said ready */
    NODE_LEAVING,     /* said that it goes; its workers may still be there */
    NODE_STALE,       /* holds an old round, was told to stop it */
    NODE_DRAINED,     /* was told to go, and runs no workers */
    NODE_ENDING,      /* was told of an end that is not final: owes a bye */
    NODE_ENDED,       /* its run is over, and nothing is waited for from it: it
                         said bye, is absent, or the end is final */
    NODE_STATES
};

/* Leases on their way, of which a beat may say that it heard: more than beats
 * in a lease. */
#define NODE_SENT 16

struct node {
    enum node_state state;
    int run;
    int conn;        /* -1: absent, its connection broke ... */
    int64_t away_us; /* ... then */
    int prev, next;  /* in the run's list, by arrival; -1 ends it */
    int hash_next;   /* in the table by agent id */
    char agent[RNG_ID_LEN + 1];
    char name[65];
    char role[65];
    char addr[65];      /* where other nodes reach it */
    char peer_addr[65]; /* from where it connected */
    char here_addr[65]; /* the server's address of its connection */
    char owns[162];     /* join.owns */
    bool hosts;
    bool drained; /* an operator takes it out; it is told until it goes */
    char drained_by[65]; /* an address; "": by itself */
    int nproc;
    int port;
    int serve_port; /* where its launcher would serve the run; 0: nowhere */
    int asked_rank;
    int64_t arrival;
    int64_t since_us;       /* when it came */
    int64_t heard_us;       /* its last join or beat */
    int64_t lease_until_us; /* the longest grant that may still be out */
    bool confirmed;         /* it said that it holds the round of run->round */
    int64_t quarantined_until_us; /* its cool-down; in the past: it has none */
    int64_t stale_round;          /* STALE: the one that it was told to stop */
    struct launcher launcher;     /* its part in the authority */
    int64_t asked;    /* an `prepare` of this term of the server's is on its way
                         to it, or its promise back; 0: none is ... */
    int64_t asked_us; /* ... which was sent then */
    bool local;       /* it is on our host, as its address tells */
    bool moved;       /* the others reach it elsewhere since it was back */
    bool untold;      /* it came back while it obeyed another server: must be
                         told its state once it obeys us */
    int64_t told_us;  /* how far the newest lease goes that it was told of */
    int64_t beat_seq, beat_heard; /* its last beat on this connection */
    struct {
        int64_t seq, at_us;
    } sent[NODE_SENT]; /* its last leases on this connection */
    /* Its place in the round of run->round; group_rank -1: not in it. */
    int group_rank;
    int base_rank;
    int role_rank;
    int role_world;
    struct pace pace;      /* of its workers in that round .. */
    int64_t mirrored;      /* .. and what they keep: see the message beat */
    struct slow_rank slow; /* .. and how slow one of them is */
    bool asks;             /* its last beat asked, ... */
    bool stands;    /* ... or told of ranks that stand still (stands.h) */
    bool owed_sums; /* its next lease bears the sums of that round */
    char daemon[MSG_VOTER_LEN + 1]; /* that it reaches, and that would have the
                                       run (handback.h); "": none */
};

/* Fills the table of an empty server. */
void node_init(struct rdzv *r);

/* NULL if there is none; node_at gives NULL for -1. `run` is an id: nodes
 * of a run that ended are found too. */
struct node *node_at(const struct rdzv *r, int i);
struct node *
node_find(const struct rdzv *r, const char *run, const char *agent);

/* A node for the join in `ev`, waiting, bound to its connection, and the last
 * of the run's list. There must be a free one. */
struct node *
node_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev);

/* The boot of its host as a number; 0: it owns nothing, or says nonsense. */
uint32_t node_boot(const struct msg_join *j);

/* Where it is, as the join in `ev` tells: it may have moved since its last one.
 * True: the others reach it elsewhere than before. */
bool node_set_address(struct node *n, const struct rdzv_event *ev);

/* Drops its connection too. */
void node_remove(struct rdzv *r, struct node *n);

/* Changes its state, and the run's counts with it. Never to NODE_FREE: that is
 * node_remove. */
void node_set_state(struct rdzv *r, struct node *n, enum node_state state);

/* Messages to a bound node go to that connection. A node that is not bound is
 * absent; the run counts these. */
void node_bind(struct rdzv *r, struct node *n, int conn);
void node_unbind(struct rdzv *r, struct node *n);

/* It counts its beats from 0 on each connection. */
void node_begin_beats(struct node *n);

/* Asks for its promise, unless it obeys another server, or was
 * asked and has not answered: so it is clear which message a promise answers.
 */
void node_ask(struct rdzv *r, struct node *n);

/* Tells the authority of its run what it says, or what becomes of it. */
void node_says(struct rdzv *r,
               struct node *n,
               enum authority_word word,
               int64_t value);

/* It has promised that term, here or elsewhere. */
void node_obeys(struct rdzv *r, struct node *n, const struct term *term);

/* It promises the server's term. */
void node_promise(struct rdzv *r, struct node *n);

/* Nothing is waited for from an ENDING node any more: it is ENDED. */
void node_clear_bye(struct rdzv *r, struct node *n);

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

/* Whether a numeric address is one that only its own host reaches. */
bool node_is_loopback(const char *addr);

#endif
