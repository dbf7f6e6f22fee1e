/*
 * The states of runs and nodes, as tables. Nothing here changes anything: what
 * an event does is in the table of rdzv.h, and in the files that carry it out.
 * An event that leaves a run or a node in a combination that is not allowed
 * here is a defect of ours, never of a peer: what peers say is looked at before
 * it becomes a state (join_check.c, join_is_news).
 *
 * These hold between steps only. Within one, a round that is over has nodes
 * that still count as RUNNING until each was told.
 */
#include "rendezvous/core/inner/state/states.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"

/* -- a node, in its run ---------------------------------------------------- */

enum may {
    NO,
    MAY,
    MUST
};

#define C (1u << RUN_ELECTING)
#define G (1u << RUN_GATHER)
#define P (1u << RUN_PENDING)
#define A (1u << RUN_ACTIVE)
#define D (1u << RUN_DRAIN)
#define E (1u << RUN_ENDED)

/*
 * `runs`: the states of its run. `placed`: it has a group rank, of the round
 * that runs or, between two rounds, of the last one. `drained`: an operator
 * takes it out. `absent`: its connection is broken.
 */
static const struct {
    unsigned runs;
    enum may placed, drained, absent;
} rows[NODE_STATES] = {
    /* clang-format off */
    /*                     in runs that are          placed  drained  absent */
    [NODE_JOINING]      = {C | G | P | A | D,         NO,     NO,      NO},
    [NODE_WAITING]     = {    G |         D,         MAY,    NO,      MAY},
    [NODE_SPARE]       = {    G | P | A | D,         NO,     NO,      MAY},
    [NODE_QUARANTINED] = {    G | P | A | D,         MAY,    NO,      MAY},
    [NODE_PENDING]     = {        P,                 MUST,   NO,      MAY},
    [NODE_RUNNING]     = {            A,             MUST,   NO,      MAY},
    [NODE_DONE]        = {            A,             MUST,   MAY,     MAY},
    [NODE_STOPPING]    = {                D,         MUST,   MAY,     MAY},
    [NODE_LEAVING]     = {                D,         MUST,   MAY,     MAY},
    [NODE_STALE]       = {    G | P | A | D,         NO,     MAY,     MAY},
    [NODE_DRAINED]     = {    G | P | A | D,         MAY,    MUST,    MAY},
    [NODE_ENDING]      = {                    E,     MAY,    MAY,     NO},
    [NODE_ENDED]       = {                    E,     MAY,    MAY,     MAY},
    /* clang-format on */
};

static bool is_allowed(enum may may, bool is_so)
{
    return may == MAY || (may == MUST) == is_so;
}

void states_check_node(const struct rdzv *r, const struct node *n)
{
    const struct run *run = &r->runs[n->run];
    ddp_assert(n->state > NODE_FREE && n->state < NODE_STATES);
    ddp_assert((rows[n->state].runs & 1u << run->state) != 0);
    ddp_assert(is_allowed(rows[n->state].placed, n->group_rank >= 0));
    ddp_assert(is_allowed(rows[n->state].drained, n->drained));
    ddp_assert(is_allowed(rows[n->state].absent, n->conn < 0));
    ddp_assert(n->conn < 0 || &r->nodes[r->conn_node[n->conn]] == n);
    /* What the timers go by: nothing is due before they look. */
    ddp_assert(r->lease_check_us <= n->lease_until_us);
    if (n->state == NODE_QUARANTINED)
        ddp_assert(run->strikes.max > 0 &&
                   run->strikes.check_us <= n->quarantined_until_us);
}

/* -- a run ----------------------------------------------------------------- */

/* What a run of any state has. */
static void check_any(const struct run *run)
{
    const struct budget *b = &run->budget;
    ddp_assert(b->window_us > 0 || b->used <= b->max);
    ddp_assert(b->crash_loop == 0 || run->state == RUN_ENDED ||
               b->no_progress < b->crash_loop);
    ddp_assert(run->recovery.holes >= 0 && run->round.gone_done >= 0);
    ddp_assert(run->round.confirmed <= run->round.group_world);
}

/* What a run has until it ends: a round makes its instance, and nothing of the
 * end is known. */
static void check_live(const struct run *run)
{
    ddp_assert(run->conf.nodes_min > 0);
    ddp_assert(run->conf.nodes_min <= run->conf.nodes_max);
    ddp_assert((run->round.number > 0) == (run->instance[0] != '\0'));
    ddp_assert(run->end.forget_at_us == 0 && !run->end.lapsed);
    bool failed =
        run->round.blame == BLAME_WORKER || run->round.blame == BLAME_BOTH;
    ddp_assert((run->report.root.round > 0) == failed);
    ddp_assert(!failed || run->report.root.round == run->round.number);
}

static void check_gather(const struct run *run)
{
    /* Last call is for the first round only. */
    ddp_assert(run->gather.seal_at_us == MONO_NEVER || run->round.number == 0);
    ddp_assert(run->recovery.holes == 0);
    ddp_assert(run->round.number > 0 || run->round.blame == BLAME_NONE);
}

static void check_candidate(const struct run *run)
{
    ddp_assert(run->authority.state != AUTHORITY_LEADER);
    ddp_assert(run->round.number == 0 && run->recovery.holes == 0);
}

static void check_pending(const struct run *run)
{
    const struct authority *a = &run->authority;
    ddp_assert(a->pending);
    ddp_assert(a->next_round == run->round.number);
    ddp_assert(run->count[NODE_PENDING] == run->round.group_world);
    ddp_assert(run->round.world_size > 0 && !run->recovery.inherited);
    ddp_assert(run->recovery.holes == 0 && run->round.blame == BLAME_NONE);
}

/* Whose newest round is the one that is known here. */
static void check_authority_of(const struct run *run)
{
    const struct authority *a = &run->authority;
    (void)authority_tally(a, 0); /* which asserts what holds of it */
    ddp_assert(run->state == RUN_ELECTING || run->state == RUN_ENDED ||
               a->state != AUTHORITY_FOLLOWER);
    ddp_assert(run->state != RUN_ACTIVE || run->round.number == a->round);
    ddp_assert(a->pending
                   ? run->state == RUN_PENDING || run->state == RUN_GATHER
                   : run->state != RUN_PENDING);
}

static void check_active(const struct run *run, int members)
{
    const struct run_round *round = &run->round;
    const struct run_recovery *re = &run->recovery;
    ddp_assert(round->number > 0 && round->blame == BLAME_NONE);
    ddp_assert(round->group_world >= run->conf.nodes_min &&
               round->group_world <= run->conf.nodes_max);
    ddp_assert(members + round->gone_done + re->holes == round->group_world);
    /* Only of a round that another server sealed something is not known. */
    ddp_assert(re->inherited || (re->holes == 0 && round->world_size > 0));
    ddp_assert(run->report.loss.node[0] == '\0');
}

/* It drains as long as there is something to wait for. */
static void check_drain(const struct run *run)
{
    ddp_assert(run->round.number > 0);
    ddp_assert(run->round.over_us >= run->round.sealed_us);
    ddp_assert(run->count[NODE_STOPPING] + run->count[NODE_LEAVING] +
                   run->recovery.holes >
               0);
}

static void check_ended(const struct run *run)
{
    const struct run_result *end = &run->end;
    ddp_assert(end->forget_at_us > end->at_us);
    ddp_assert(strcmp(end->msg.instance, run->instance) == 0);
    ddp_assert(end->settle_at_us != MONO_NEVER || run->count[NODE_ENDING] == 0);
    ddp_assert(!end->lapsed || run->head < 0);
}

void states_check_run(const struct rdzv *r, const struct run *run)
{
    int count[NODE_STATES] = {0};
    int absent = 0;
    int members = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        states_check_node(r, n);
        ddp_assert(n->run == run_index(r, run));
        count[n->state]++;
        absent += n->conn < 0;
        if (node_in_round(n)) {
            members++;
            ddp_assert(n->group_rank < run->round.group_world);
        }
    }
    for (int s = 0; s < NODE_STATES; s++)
        ddp_assert(count[s] == run->count[s]);
    ddp_assert(absent == run->absent);
    check_any(run);
    if (run->state != RUN_ENDED)
        check_live(run);
    check_authority_of(run);
    switch (run->state) {
    case RUN_ELECTING:
        check_candidate(run);
        return;
    case RUN_PENDING:
        check_pending(run);
        return;
    case RUN_GATHER:
        check_gather(run);
        return;
    case RUN_ACTIVE:
        check_active(run, members);
        return;
    case RUN_DRAIN:
        check_drain(run);
        return;
    case RUN_ENDED:
        check_ended(run);
        return;
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

/* -- the tables ------------------------------------------------------------ */

void states_check_tables(const struct rdzv *r)
{
    int nodes = 0;
    for (int i = 0; i < r->fresh_node; i++)
        nodes += r->nodes[i].state != NODE_FREE;
    ddp_assert(nodes == r->n_nodes && nodes <= r->limits.nodes_max);
    for (int i = r->free_node; i >= 0; i = r->nodes[i].hash_next) {
        ddp_assert(r->nodes[i].state == NODE_FREE);
        nodes++;
    }
    ddp_assert(nodes == r->fresh_node);
}
