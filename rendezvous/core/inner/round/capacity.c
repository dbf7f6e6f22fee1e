/*
 * What is removed when the tables of runs and nodes are full.
 *
 * Happy path: a slot is free and nothing happens. Otherwise, in this order:
 *   1. a run that has ended, or that has no nodes; a node that was told of its
 *      run's end and is not connected;
 *   2. a deserted run: all of its connections broke, none came back in AWAY_US;
 *   3. if any host may join (limits.runs_share), what has no round yet, of the
 *      source that holds the most. Within a source the youngest goes first: a
 *      flood comes after what was there before it. While the server is new,
 *      newcomers give way to a member that comes back and is within its share,
 *      whatever their source has: they may have filled it before the members
 *      came. That a node is a member is its own word, so this has an end.
 *
 * A round that runs is never ended for others. One host that opens runs without
 * end therefore keeps nobody out, as long as those that run are within its
 * share (join_check.c). If nothing may be removed, the join is refused.
 */
#include "rendezvous/core/inner/round/capacity.h"

#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/round/node_gone.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/run.h"

/* An agent whose connection broke pauses for 2.5 s at most before it tries
 * again (launcher/agent/session.c). */
#define AWAY_US (5 * MONO_S)

/* By then the members of all runs have come back to a new server. */
#define NEW_US (30 * MONO_S)

static bool is_shared_out(const struct rdzv *r)
{
    return r->limits.runs_share > 0;
}

void capacity_text(const struct rdzv *r, char text[CAPACITY_TEXT_MAX])
{
    const struct rdzv_limits *l = &r->limits;
    (void)snprintf(text, CAPACITY_TEXT_MAX, /* fits */
                   l->embedded ? "a launcher serves it; limit of nodes: %d, "
                                 "of runs: %d"
                               : "--max_nodes=%d, --max_runs=%d",
                   l->nodes_max, l->runs_max);
}

static void tell_to_go(struct rdzv *r, const struct node *n)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused.code = DDP_E_NOMEM};
    char limits[CAPACITY_TEXT_MAX];
    capacity_text(r, limits);
    (void)snprintf(
        m.refused.text, /* fits */
        sizeof(m.refused.text),
        "this rendezvous is full (%s), and %s has the most of it: this node, "
        "which was in no round, gave way to another address",
        limits, node_source(r, n));
    reply_node(r, n, &m);
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
 * If the tables are full, a deserted run gives way, the one that came last: for
 * it that is as if the server had been started anew, and its nodes tell of its
 * round when they are back. Otherwise nodes that joined with long leases and
 * broke off would keep all others out until these are over. NULL: there is none
 * that has so many nodes, or only `keep`.
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
        if (run->state != RUN_ENDED && !run_is_abandoned(run))
            continue;
        if (oldest == NULL || run->end.forget_at_us < oldest->end.forget_at_us)
            oldest = run;
    }
    return oldest;
}

static bool has_no_round(const struct run *run)
{
    return run->state == RUN_GATHER && run->instance[0] == '\0';
}

/* Who needs room. */
struct seeker {
    const char *addr;
    bool is_member; /* it holds a round */
};

/* Whether one of a source that has `count` may go for it, which has `have`. */
static bool is_before(const struct seeker *who, int have, int count)
{
    return who->is_member || quota_may_take(have, count);
}

static bool may_displace(const struct rdzv *r,
                         const struct quota *sources,
                         const struct seeker *who)
{
    return is_shared_out(r) &&
           (who->is_member || quota_within_share(sources, who->addr));
}

/* The youngest of those that may give way of the source that has the most. */
static struct run *largest_source_run(const struct rdzv *r,
                                      const struct seeker *who)
{
    struct run *last = NULL;
    int most = 0;
    int have = quota_count_of(r->run_sources, who->addr);
    if (!may_displace(r, r->run_sources, who))
        return NULL;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (!has_no_round(run))
            continue;
        int count = quota_count(r->run_sources, run->source);
        if (!is_before(who, have, count) || count < most ||
            (count == most && run->opened_us < last->opened_us))
            continue;
        last = run;
        most = count;
    }
    return last;
}

static void evict_run(struct rdzv *r, struct run *run)
{
    note(r, NOTE_gave_way, run, "", "runs of %s: %d of at most %d",
         run_source(r, run), quota_count(r->run_sources, run->source),
         r->limits.runs_max);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        tell_to_go(r, &r->nodes[i]);
    run_forget(r, run);
}

/* What gives its slot to a run of `who`; NULL: nothing does. */
static struct run *weakest_run(const struct rdzv *r, const struct seeker *who)
{
    struct run *run = finished_run(r);
    if (run == NULL)
        run = deserted_run(r, NULL, 0);
    return run != NULL ? run : largest_source_run(r, who);
}

static void clear_run(struct rdzv *r, struct run *run)
{
    if (run->state != RUN_ENDED && count_nodes(run) > run->absent)
        evict_run(r, run);
    else
        run_forget(r, run);
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

/* As largest_source_run; never one of `keep`, which might be gone with it. */
static struct node *largest_source_node(const struct rdzv *r,
                                        const struct run *keep,
                                        const struct seeker *who)
{
    struct node *last = NULL;
    int most = 0;
    int have = quota_count_of(r->node_sources, who->addr);
    if (!may_displace(r, r->node_sources, who))
        return NULL;
    for (int i = 0; i < r->fresh_node; i++) {
        struct node *n = &r->nodes[i];
        const struct run *run = &r->runs[n->run];
        bool waits = n->state == NODE_WAITING && has_no_round(run);
        if (run == keep || !(waits || n->state == NODE_SPARE))
            continue;
        int count = quota_count(r->node_sources, n->source);
        if (!is_before(who, have, count) || count < most ||
            (count == most && n->arrival < last->arrival))
            continue;
        last = n;
        most = count;
    }
    return last;
}

static void evict_node(struct rdzv *r, struct node *n)
{
    note(r, NOTE_gave_way, &r->runs[n->run], n->name,
         "nodes of %s: %d of at most %d", node_source(r, n),
         quota_count(r->node_sources, n->source), r->limits.nodes_max);
    tell_to_go(r, n);
    node_gone(r, n, "gave way");
}

/* False: no node gives way. */
static bool
clear_node(struct rdzv *r, const struct run *keep, const struct seeker *who)
{
    struct run *deserted;
    struct node *n = ended_node(r);
    if (n != NULL)
        node_remove(r, n);
    else if ((deserted = deserted_run(r, keep, 1)) != NULL)
        run_forget(r, deserted);
    else if ((n = largest_source_node(r, keep, who)) != NULL)
        evict_node(r, n);
    return has_free_node(r);
}

/* -- both ------------------------------------------------------------------ */

bool capacity_make(struct rdzv *r,
                   const struct run *run,
                   const char *addr,
                   bool is_member)
{
    bool is_new = r->now_us < mono_after(r->began_us, NEW_US);
    const struct seeker who = {.addr = addr, .is_member = is_member && is_new};
    struct run *weakest = NULL;
    bool needs_slot = run == NULL && capacity_free_run(r) == NULL;
    if (needs_slot && (weakest = weakest_run(r, &who)) == NULL)
        return false;
    bool frees_node = weakest != NULL && count_nodes(weakest) > 0;
    if (!has_free_node(r) && !frees_node && !clear_node(r, run, &who))
        return false;
    /* With a node its run may be gone, so that there is a slot by now. */
    if (needs_slot && capacity_free_run(r) == NULL)
        clear_run(r, weakest);
    return true;
}
