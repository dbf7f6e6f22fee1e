/*
 * What is removed when the tables of runs and nodes are full.
 *
 * Happy path: a slot is free and nothing happens. Otherwise, in this order:
 *   1. a run that has ended, or that has no nodes; a node that was told of its
 *      run's end and is not connected;
 *   2. a deserted run: all of its connections broke, none came back in AWAY_US.
 *
 * Nothing else gives way, also if one host has filled the tables: then the join
 * is refused.
 */
#include "rendezvous/core/inner/round/capacity.h"

#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/run.h"

/* An agent whose connection broke pauses for 2.5 s at most before it tries
 * again (launcher/agent/session.c). */
#define AWAY_US (5 * MONO_S)

void capacity_text(const struct rdzv *r, char text[CAPACITY_TEXT_MAX])
{
    const struct rdzv_limits *l = &r->limits;
    (void)snprintf(text, CAPACITY_TEXT_MAX, /* fits */
                   l->embedded ? "a launcher serves it; limit of nodes: %d, "
                                 "of runs: %d"
                               : "--max_nodes=%d, --max_runs=%d",
                   l->nodes_max, l->runs_max);
}

/* -- runs ------------------------------------------------------------------ */

struct run *capacity_free_run(const struct rdzv *r)
{
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].state == RUN_FREE)
            return &r->runs[i];
    return NULL;
}

static int count_nodes(const struct run *run)
{
    int nodes = 0;
    for (int state = 0; state < NODE_STATES; state++)
        nodes += run->count[state];
    return nodes;
}

/* Whether nobody is connected, nor will be at once: connections that broke all
 * together, as when a switch restarts, come back by then. */
static bool is_deserted(const struct rdzv *r, const struct run *run)
{
    if (count_nodes(run) > run->absent)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->now_us < mono_after(r->nodes[i].away_us, AWAY_US))
            return false;
    return true;
}

/*
 * If the tables are full, a deserted run gives way, the one that came last:
 * this server forgets it, and its nodes tell of their round when they are back.
 * Otherwise nodes that joined with a long heartbeat_timeout and broke off would
 * keep all others out until their leases are over. NULL: no run has so many
 * nodes, or only `keep`.
 */
static struct run *
deserted_run(const struct rdzv *r, const struct run *keep, int least)
{
    struct run *last = NULL;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run->state != RUN_FREE && run != keep && run->state != RUN_ENDED &&
            count_nodes(run) >= least && is_deserted(r, run) &&
            (last == NULL || run->opened_us >= last->opened_us))
            last = run;
    }
    return last;
}

/* One that ended or that nobody is in, the one that is forgotten first. */
static struct run *finished_run(const struct rdzv *r)
{
    struct run *oldest = NULL;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run->state != RUN_ENDED && !run_is_abandoned(run, r->now_us))
            continue;
        if (oldest == NULL || run->end.forget_at_us < oldest->end.forget_at_us)
            oldest = run;
    }
    return oldest;
}

/* What gives its slot to another run; NULL: nothing does. */
static struct run *weakest_run(const struct rdzv *r)
{
    struct run *run = finished_run(r);
    return run != NULL ? run : deserted_run(r, NULL, 0);
}

/* -- nodes ----------------------------------------------------------------- */

static bool has_free_node(const struct rdzv *r)
{
    return r->free_node >= 0 || r->fresh_node < r->limits.nodes_max;
}

/* One that was told of its run's end, but does not come to say bye. */
static struct node *ended_node(const struct rdzv *r)
{
    for (int i = 0; i < r->fresh_node; i++) {
        struct node *n = &r->nodes[i];
        if (n->state == NODE_ENDED && n->conn < 0)
            return n;
    }
    return NULL;
}

/* False: no node gives way. */
static bool clear_node(struct rdzv *r, const struct run *keep)
{
    struct run *deserted;
    struct node *n = ended_node(r);
    if (n != NULL)
        node_remove(r, n);
    else if ((deserted = deserted_run(r, keep, 1)) != NULL)
        run_forget(r, deserted);
    return has_free_node(r);
}

/* -- both ------------------------------------------------------------------ */

bool capacity_make(struct rdzv *r, const struct run *run)
{
    struct run *weakest = NULL;
    bool needs_slot = run == NULL && capacity_free_run(r) == NULL;
    if (needs_slot && (weakest = weakest_run(r)) == NULL)
        return false;
    bool frees_node = weakest != NULL && count_nodes(weakest) > 0;
    if (!has_free_node(r) && !frees_node && !clear_node(r, run))
        return false;
    /* With a node its run may be gone, so that there is a slot by now. */
    if (needs_slot && capacity_free_run(r) == NULL)
        run_forget(r, weakest);
    return true;
}
