/*
 * core/inner/state/rdzv_state: inside the rendezvous core: the server's whole
 * memory: tables of runs and of nodes, and what the step that runs needs.
 * Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_RDZV_STATE_H
#define RENDEZVOUS_CORE_INNER_STATE_RDZV_STATE_H

#include "rendezvous/core/inner/state/due.h"
#include "rendezvous/core/inner/state/shows.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/ranks.h"

/* What a node said that came to a server which does not lead,
 * to be acted on when it is. */
struct statement {
    struct msg_join join; /* its state follows what it says later */
    int64_t at_us;        /* when it came */
    bool nonsense;        /* what it told was none; nothing of it is known */
    bool voted;           /* it told which round it accepted ... */
    struct term term;     /* ... proposed in this term, ... */
    int64_t round;
    int group_rank; /* ... and its place in it */
    bool leaves;    /* and so it said */
    struct msg_leave leave;
};

struct moved;
struct farewells;

struct rdzv {
    struct rdzv_limits limits;
    struct run *runs;
    struct node *nodes;
    struct statement *statements; /* one for each node */
    struct moved *moved;          /* runs that are served elsewhere: moved.h */
    struct farewells *farewells;  /* that were heard lately: farewell.h */
    int *conn_node;               /* by connection: its node, or -1 */
    int *buckets;                 /* by hash of agent id: first node, or -1 */
    uint32_t n_buckets;           /* a power of two */
    uint32_t *boots;              /* by node: node_boot of its join */
    int free_node;  /* list of nodes that were used, by hash_next */
    int fresh_node; /* nodes from this one on were never used */
    int n_nodes;
    int64_t arrivals;
    int64_t terms; /* counts of our own within a line, up to this, are used up
                       in any run: one that was forgotten may come again */
    int64_t lease_check_us; /* no lease ends before this */
    struct due *due; /* round_deadline of each run, but of those it touched */
    /* Our launcher has left (handover.h): its connection, -1: it has not, or is
     * gone; and its run until it was told to go, else -1. */
    struct {
        int conn, run;
        int64_t left_round;  /* the round when it left */
        int64_t asked_round; /* a later one, whose voters were asked; or 0 */
    } handover;
    struct rng rng;
    struct ranks_node *places, *scratch; /* nodes_max of each */
    struct slow_told *told;              /* nodes_max */
    uint8_t *taken; /* runs_max bitmaps of nodes_max bits: the places of a
                       inherited round that were claimed, be it by a node that
                       is lost by now (inherited.h) */
    struct show shows[SHOWS_MAX]; /* orders whose answer is on its way */
    int64_t show_last;            /* the last one's number */
    int64_t noted[NOTE_COUNT];    /* how often each thing was told */
    int64_t charged;              /* restarts, of all runs */
    /* For the step that runs: */
    int64_t now_us;
    const struct rdzv_actions *out;
};

static inline int run_index(const struct rdzv *r, const struct run *run)
{
    return (int)(run - r->runs);
}

static inline struct statement *statement_of(const struct rdzv *r,
                                             const struct node *n)
{
    return &r->statements[n - r->nodes];
}

/* Something has changed that its deadline may go by. */
static inline void rdzv_touch(struct rdzv *r, const struct run *run)
{
    due_touch(r->due, run_index(r, run));
}

#endif
