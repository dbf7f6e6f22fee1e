/*
 * Two things are decided here and not in the core, which has more states than a
 * person wants to see. An absent node is shown as absent, whatever its workers
 * do. And the order of runs and nodes is always the same, so that a page that
 * is drawn again every second does not jump: by id or name as people sort them
 * (node2 before node10), members of the round before spares, an ended run
 * behind the live one of its id.
 *
 * What is shown may be of the past: in a run that gathers, world_size and the
 * master are those of the last round. Readers decide by `state` what to show.
 */
#include "rendezvous/core/status.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/strikes.h"

const char *status_run_word(enum status_run_state state)
{
    static const char *const words[STATUS_RUN_STATES] = {
        [STATUS_GATHER] = "gather",
        [STATUS_ACTIVE] = "active",
        [STATUS_DRAIN] = "drain",
        [STATUS_ENDED] = "ended",
    };
    ddp_assert(state < STATUS_RUN_STATES);
    return words[state];
}

const char *status_node_word(enum status_node_state state)
{
    static const char *const words[STATUS_NODE_STATES] = {
        [STATUS_WAITING] = "waiting",
        [STATUS_SPARE] = "spare",
        [STATUS_QUARANTINED] = "quarantined",
        [STATUS_RUNNING] = "running",
        [STATUS_DONE] = "done",
        [STATUS_STOPPING] = "stopping",
        [STATUS_LEAVING] = "leaving",
        [STATUS_ABSENT] = "absent",
    };
    ddp_assert(state < STATUS_NODE_STATES);
    return words[state];
}

static enum status_run_state run_state(const struct run *run)
{
    switch (run->state) {
    case RUN_ELECTING:
    case RUN_GATHER:
    case RUN_PENDING:
        return STATUS_GATHER;
    case RUN_ACTIVE:
        return STATUS_ACTIVE;
    case RUN_DRAIN:
        return STATUS_DRAIN;
    case RUN_ENDED:
        return STATUS_ENDED;
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

static enum status_node_state node_state(const struct node *n)
{
    if (n->conn < 0)
        return STATUS_ABSENT;
    switch (n->state) {
    case NODE_JOINING:
    case NODE_WAITING:
    case NODE_PENDING:
        return STATUS_WAITING;
    case NODE_SPARE:
        return STATUS_SPARE;
    case NODE_QUARANTINED:
        return STATUS_QUARANTINED;
    case NODE_RUNNING:
        return STATUS_RUNNING;
    case NODE_DONE:
        return STATUS_DONE;
    case NODE_STOPPING:
    case NODE_STALE: /* an old round's workers */
        return STATUS_STOPPING;
    case NODE_LEAVING:
    case NODE_DRAINED:
    case NODE_ENDING:
    case NODE_ENDED:
        return STATUS_LEAVING;
    case NODE_FREE:
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

void status_total(const struct rdzv *r, struct status_total *out)
{
    *out = (struct status_total){
        .joins = r->noted[NOTE_joined] + r->noted[NOTE_spare],
        .rejoins = r->noted[NOTE_back],
        .refusals = r->noted[NOTE_refused],
        .rounds = r->noted[NOTE_sealed],
        .inherited = r->noted[NOTE_inherited],
        .failures = r->noted[NOTE_failed],
        .restarts = r->charged,
        .refunds = r->noted[NOTE_refund],
        .lost = r->noted[NOTE_lost],
        .ended = r->noted[NOTE_ended],
        .orders = r->noted[NOTE_ordered],
        .takeovers = r->noted[NOTE_elected],
    };
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].state != RUN_FREE)
            out->runs[run_state(&r->runs[i])]++;
    for (int i = 0; i < r->fresh_node; i++)
        if (r->nodes[i].state != NODE_FREE)
            out->nodes[node_state(&r->nodes[i])]++;
}

/* -- runs ------------------------------------------------------------------ */

/* Of the same id at most one has not ended: it comes first. */
static int compare_runs(const void *a, const void *b, void *ctx)
{
    const struct rdzv *r = ctx;
    const struct run *x = &r->runs[*(const int *)a];
    const struct run *y = &r->runs[*(const int *)b];
    int order = ranks_natural_cmp(x->id, y->id);
    if (order == 0)
        order = (x->state == RUN_ENDED) - (y->state == RUN_ENDED);
    if (order == 0)
        order = (y->end.at_us > x->end.at_us) - (y->end.at_us < x->end.at_us);
    return order != 0 ? order : (x > y) - (x < y);
}

int status_runs(const struct rdzv *r, int *order)
{
    int n = 0;
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].state != RUN_FREE)
            order[n++] = i;
    qsort_r(order, (size_t)n, sizeof(order[0]), compare_runs,
            (void *)(uintptr_t)r);
    return n;
}

bool status_has_run(const struct rdzv *r, int index)
{
    return r->runs[index].state != RUN_FREE;
}

static int nodes_of(const struct run *run)
{
    if (run->state == RUN_ACTIVE)
        return run->round.group_world;
    return run->count[NODE_JOINING] + run->count[NODE_WAITING] +
           run->count[NODE_PENDING] + run->count[NODE_STOPPING] +
           run->count[NODE_LEAVING] + run->count[NODE_ENDING] +
           run->count[NODE_ENDED];
}

static int64_t
gather_left_us(const struct rdzv *r, const struct run *run, int64_t now_us)
{
    (void)r;
    int64_t until_us = run->gather.seal_at_us;
    if (until_us == MONO_NEVER)
        until_us = mono_after(run->gather.since_us, run->conf.join_us);
    return until_us > now_us ? until_us - now_us : 0;
}

static struct status_authority authority_of(const struct run *run,
                                            int64_t now_us)
{
    const struct authority *a = &run->authority;
    struct authority_tally tally =
        authority_tally(a, now_us - run->conf.heartbeat_us);
    return (struct status_authority){
        .leads = a->state == AUTHORITY_LEADER,
        .may_act = run_may_act(run, now_us),
        .term = a->term.count,
        .voters = tally.voters,
        .here = tally.here,
        .answer = tally.answered,
    };
}

void status_run(const struct rdzv *r,
                int index,
                int64_t now_us,
                struct status_run *out)
{
    const struct run *run = &r->runs[index];
    ddp_assert(run->state != RUN_FREE);
    bool ended = run->state == RUN_ENDED;
    int64_t end_us = ended ? run->end.at_us : now_us;
    *out = (struct status_run){
        .id = run->id,
        .instance = run->instance,
        .prog = run_program(run),
        .state = run_state(run),
        .round = run->round.number,
        .nodes_min = run->conf.nodes_min,
        .nodes_max = run->conf.nodes_max,
        .nodes = nodes_of(run),
        .spares = run->count[NODE_SPARE],
        .absent = run->absent,
        .world_size = run->round.world_size,
        .master_addr = run->round.master_addr,
        .master_port = run->round.master_port,
        .restarts = run->budget.used,
        .max_restarts = run->budget.max,
        .restarts_counting = budget_counting(&run->budget, now_us),
        .window_us = run->budget.window_us,
        .uptime_us = end_us - run->opened_us,
        .round_uptime_us =
            run->round.number > 0 ? end_us - run->round.sealed_us : 0,
        .authority = authority_of(run, now_us),
        .have = run->count[NODE_JOINING] + run->count[NODE_WAITING] +
                run->count[NODE_SPARE],
        .left_us = gather_left_us(r, run, now_us),
        .last = {.known = run->report.last.round > 0,
                 .round = run->report.last.round,
                 .node = run->report.last.node,
                 .what = &run->report.last.what,
                 .age_us = now_us - run->report.last.at_us},
        .end = ended ? &run->end.msg : NULL,
        .end_age_us = now_us - run->end.at_us,
        .group_world = run->round.group_world,
        .stands = {.node = run->state == RUN_ACTIVE ? run->stands.node : "",
                   .text = run->stands.text,
                   .age_us = now_us - run->stands.since_us},
    };
    for (int s = 0; s < NODE_STATES; s++)
        out->listed += run->count[s];
}

/* -- how it goes ----------------------------------------------------------- */

/* Sorted, the slowest one first; what does not fit is left out. */
static void insert_slow(struct status_progress *p, const struct status_slow *s)
{
    bool full = p->n_slow == STATUS_SLOWEST_MAX;
    if (full && p->slow[STATUS_SLOWEST_MAX - 1].step <= s->step)
        return;
    int at = full ? STATUS_SLOWEST_MAX - 1 : p->n_slow++;
    for (; at > 0 && p->slow[at - 1].step > s->step; at--)
        p->slow[at] = p->slow[at - 1];
    p->slow[at] = *s;
}

/* The least of what the nodes tell: in that of a node is a step plus 2. */
static void add_mirrored(struct status_progress *p, const struct node *n)
{
    if (n->mirrored == 0 || (p->keeps && n->mirrored - 2 >= p->mirrored))
        return;
    p->keeps = true;
    p->mirrored = n->mirrored - 2;
}

/* Sorted, the slowest one first; what does not fit is left out. */
static void insert_laggard(struct status_progress *p,
                           const struct status_laggard *l)
{
    bool full = p->n_laggards == STATUS_LAGGARDS_MAX;
    if (full && p->laggards[STATUS_LAGGARDS_MAX - 1].permille >= l->permille)
        return;
    int at = full ? STATUS_LAGGARDS_MAX - 1 : p->n_laggards++;
    for (; at > 0 && p->laggards[at - 1].permille < l->permille; at--)
        p->laggards[at] = p->laggards[at - 1];
    p->laggards[at] = *l;
}

/* `rank` is the node's first; -1: not known. */
static void add_laggard(struct status_progress *p,
                        const struct node *n,
                        int index,
                        int64_t rank)
{
    const struct slow_rank *s = &n->slow;
    const struct status_laggard laggard = {
        .rank = rank >= 0 ? rank + s->told.local_rank : -1,
        .local_rank = s->told.local_rank,
        .node = index,
        .permille = s->permille,
        .part_us = s->told.most_us,
        .since_us = s->since_us,
    };
    if (s->permille > 0)
        insert_laggard(p, &laggard);
}

/* `steps` of a pace is a step plus 1. */
void status_progress_add(const struct rdzv *r,
                         int index,
                         struct status_progress *p)
{
    const struct node *n = &r->nodes[index];
    const struct pace *pace = &n->pace;
    if (!node_in_round(n) || pace->steps == 0)
        return;
    bool reckoned = r->runs[n->run].round.world_size > 0;
    const struct status_slow slow = {
        .rank = reckoned ? n->base_rank + pace->slow : -1,
        .step = pace->steps - 1,
        .node = index,
    };
    int64_t most = slow.step + pace->ahead;
    if (!p->known || slow.step < p->least) {
        p->least = slow.step;
        p->micro = pace_micro(pace);
    }
    p->most = p->known && p->most > most ? p->most : most;
    p->known = true;
    add_mirrored(p, n);
    insert_slow(p, &slow);
    add_laggard(p, n, index, reckoned ? n->base_rank : -1);
}

void status_progress(const struct rdzv *r,
                     int index,
                     struct status_progress *out)
{
    const struct run *run = &r->runs[index];
    *out = (struct status_progress){.known = false};
    if (run->state == RUN_ENDED)
        return;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        status_progress_add(r, i, out);
}

/* -- nodes ----------------------------------------------------------------- */

/* Members, spares, all others. */
static int class_of(const struct node *n)
{
    if (node_in_round(n))
        return 0;
    return n->state == NODE_SPARE ? 1 : 2;
}

static int compare_nodes(const void *a, const void *b, void *ctx)
{
    const struct rdzv *r = ctx;
    const struct node *x = &r->nodes[*(const int *)a];
    const struct node *y = &r->nodes[*(const int *)b];
    int order = class_of(x) - class_of(y);
    if (order == 0 && class_of(x) == 0)
        order =
            (x->group_rank > y->group_rank) - (x->group_rank < y->group_rank);
    if (order == 0)
        order = ranks_natural_cmp(x->name, y->name);
    return order != 0 ? order
                      : (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

int status_nodes(const struct rdzv *r, int index, int *order)
{
    int n = 0;
    for (int i = r->runs[index].head; i >= 0; i = r->nodes[i].next)
        order[n++] = i;
    qsort_r(order, (size_t)n, sizeof(order[0]), compare_nodes,
            (void *)(uintptr_t)r);
    return n;
}

int status_places(const struct rdzv *r)
{
    return r->fresh_node;
}

int status_place_run(const struct rdzv *r, int index)
{
    const struct node *n = &r->nodes[index];
    return n->state == NODE_FREE ? -1 : n->run;
}

const char *status_node_name(const struct rdzv *r, int index)
{
    ddp_assert(r->nodes[index].state != NODE_FREE);
    return r->nodes[index].name;
}

void status_node(const struct rdzv *r,
                 int index,
                 int64_t now_us,
                 struct status_node *out)
{
    const struct node *n = &r->nodes[index];
    const struct run *run = &r->runs[n->run];
    ddp_assert(n->state != NODE_FREE);
    int group_rank = node_in_round(n) ? n->group_rank : -1;
    bool placed = group_rank >= 0;
    int64_t lease_us = n->lease_until_us - now_us;
    /* Of an inherited round, base ranks are known once all members are back. */
    bool reckoned = run->round.world_size > 0;
    *out = (struct status_node){
        .name = n->name,
        .agent = n->agent,
        .addr = n->addr,
        .role = n->role,
        .state = node_state(n),
        .group_rank = group_rank,
        .base_rank = placed && reckoned ? n->base_rank : -1,
        .nproc = n->nproc,
        .strikes = strikes_of(run, n),
        .votes = authority_vote(&run->authority, n->agent) != NULL,
        .serve_port = n->serve_port,
        .connected = n->conn >= 0,
        .hosts = n->hosts,
        .failed_first = run->report.last.round > 0 &&
                        run->report.last.round == run->round.number &&
                        strcmp(run->report.last.agent, n->agent) == 0,
        .step = placed ? n->pace.steps - 1 : -1,
        .lease_us = lease_us > 0 ? lease_us : 0,
        .uptime_us = now_us - n->since_us,
    };
}

const struct rdzv_limits *status_limits(const struct rdzv *r)
{
    return &r->limits;
}
