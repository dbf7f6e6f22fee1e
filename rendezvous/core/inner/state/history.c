/*
 * Happy path: the states of a run are looked at after each step of the server
 * (history_look), and the time since the last look is what the state before was
 * good for. All ranks of a round run when each node of it has said that it
 * holds it: an agent says so when it has started its workers.
 *
 * Failure modes:
 *   - A round ends and the next one is sealed in one step: round_over and
 *     round_try_drained look, too, so that none is missed.
 *   - The cause of an end comes to light later, and is older: the run's report
 *     has it, and each look hands it to goodput, up to the next round.
 *   - The server is a new one: the members tell what the one before had counted
 *     when it sealed their round (world.spent, join.spent). It ran since then,
 *     as far as they say that they run; if a member had to stop, only up to the
 *     last answer of that server.
 *   - Workers write steps between two beats: what is done twice is known to
 *     within two beats, and never told as more than it is.
 */
#include "rendezvous/core/inner/state/history.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"

static struct timeline *timeline_of(const struct rdzv *r, const struct run *run)
{
    return &r->timelines[run_index(r, run)];
}

void history_begin(struct rdzv *r, struct run *run)
{
    run->history = (struct run_history){.ran_round = 0};
    timeline_of(r, run)->known = 0;
    goodput_begin(&run->history.goodput, run->opened_us);
}

/* -- rounds ---------------------------------------------------------------- */

/* What is known of its last round is why that ended. */
static bool is_stopped(const struct run *run)
{
    return run->state == RUN_DRAIN || run->state == RUN_GATHER;
}

/* The newest one in the timeline, if it is the run's last round. */
static struct timeline_round *round_of(const struct rdzv *r,
                                       const struct run *run)
{
    struct timeline_round *t = timeline_last(timeline_of(r, run));
    return t != NULL && t->number == run->round.number ? t : NULL;
}

static enum timeline_end end_by_node(const struct run *run)
{
    if (run->report.loss.node[0] != '\0')
        return TIMELINE_LOST;
    return run->round.graceful == MSG_SCALE_DOWN ? TIMELINE_LEFT
                                                 : TIMELINE_STOPPED;
}

static enum timeline_end end_of(const struct run *run)
{
    switch (run->round.blame) {
    case BLAME_WORKER:
        return run->report.root.what.hung ? TIMELINE_HUNG : TIMELINE_FAILED;
    case BLAME_NODE:
    case BLAME_BOTH:
        return end_by_node(run);
    case BLAME_NONE:
        break;
    }
    return run->round.graceful == MSG_SCALE_UP ? TIMELINE_GREW
                                               : TIMELINE_STOPPED;
}

/* The one before may have been another server's when it ended. */
static struct timeline_round *add_round(const struct rdzv *r,
                                        const struct run *run)
{
    struct timeline *t = timeline_of(r, run);
    struct timeline_round *last = timeline_last(t);
    if (last != NULL && last->end == TIMELINE_RUNS) {
        last->end = TIMELINE_STOPPED;
        msg_set(last->text, "it ended while another server had the run");
    }
    return timeline_add(t, run->round.number);
}

static void describe_round(const struct rdzv *r, const struct run *run)
{
    struct timeline_round *t = round_of(r, run);
    if (t == NULL && run->state == RUN_ACTIVE)
        t = add_round(r, run);
    if (t == NULL)
        return;
    t->sealed_us = run->round.sealed_us;
    t->epoch = run->failover ? run->office.round_epoch.count : 0;
    t->nodes = run->round.group_world;
    t->world_size = run->round.world_size;
    if (run->state == RUN_ENDED && t->end == TIMELINE_RUNS) {
        t->end = run->end.msg.status == 0 ? TIMELINE_DONE : TIMELINE_STOPPED;
        msg_set(t->text, run->end.msg.text);
    } else if (is_stopped(run)) {
        t->end = end_of(run);
    }
}

void history_why(struct rdzv *r, struct run *run, const char *why)
{
    struct timeline_round *t = round_of(r, run);
    if (t != NULL)
        msg_set(t->text, why);
}

/* -- time ------------------------------------------------------------------ */

static bool all_ranks_run(const struct run *run)
{
    return run->recovery.rebuilt ||
           run->round.number == run->history.ran_round ||
           run->round.confirmed >= run->round.group_world;
}

static enum goodput_phase phase_of(const struct run *run)
{
    switch (run->state) {
    case RUN_CANDIDATE:
    case RUN_GATHER:
        return GOODPUT_WAITS;
    case RUN_PENDING:
    case RUN_DRAIN:
        return GOODPUT_STARTS;
    case RUN_ACTIVE:
        return all_ranks_run(run) ? GOODPUT_RUNS : GOODPUT_STARTS;
    case RUN_ENDED:
        return GOODPUT_OVER;
    case RUN_FREE:
    case RUN_STATES:
        break;
    }
    DDP_WRONG("run state");
}

/* Of the round that runs or ran last. A member of a rebuilt round that never
 * came was last known to be there when the server before us answered. */
static void look_for_signs(struct run *run)
{
    struct goodput *g = &run->history.goodput;
    bool missed = run->state == RUN_DRAIN && run->recovery.rebuilt &&
                  run->round.blame == BLAME_NODE &&
                  run->round.confirmed < run->round.group_world;
    if (run->report.root.round > 0 &&
        run->report.root.round == run->history.ran_round)
        goodput_bad(g, run->report.root.at_us);
    if (missed && run->history.heard_us > 0)
        goodput_bad(g, run->history.heard_us);
}

static struct goodput_parts unspent(const struct run_history *h, int64_t now_us)
{
    const struct goodput_parts now = goodput_get(&h->goodput, now_us);
    return (struct goodput_parts){
        .ran_us = now.ran_us - h->spent.ran_us,
        .waited_us = now.waited_us - h->spent.waited_us,
        .detect_us = now.detect_us - h->spent.detect_us,
        .restart_us = now.restart_us - h->spent.restart_us,
    };
}

/* What has passed since the last look is the timeline's. */
static void spend(const struct rdzv *r, struct run *run)
{
    struct run_history *h = &run->history;
    const struct goodput_parts more = unspent(h, r->now_us);
    timeline_spend(timeline_of(r, run), &more);
    h->spent = goodput_get(&h->goodput, r->now_us);
}

struct timeline_round history_round(const struct rdzv *r,
                                    const struct run *run,
                                    int i,
                                    int64_t now_us)
{
    const struct timeline *t = timeline_of(r, run);
    const struct goodput_parts more = unspent(&run->history, now_us);
    struct timeline_round round = *timeline_at(t, i);
    timeline_share(t, i, &more, &round.cost);
    return round;
}

void history_look(struct rdzv *r, struct run *run)
{
    struct run_history *h = &run->history;
    if (run->state == RUN_FREE)
        return;
    enum goodput_phase phase = phase_of(run);
    if (phase == GOODPUT_RUNS && h->goodput.phase == phase &&
        h->ran_round == run->round.number && !run->recovery.rebuilt)
        return; /* it runs on: so it is with nearly all beats */
    look_for_signs(run);
    spend(r, run);
    goodput_enter(&h->goodput, phase, r->now_us);
    describe_round(r, run);
    if (phase == GOODPUT_RUNS)
        h->ran_round = run->round.number;
}

void history_lost(struct run *run, const struct node *n)
{
    if (n->state == NODE_RUNNING || n->state == NODE_STOPPING)
        goodput_bad(&run->history.goodput, n->heard_us);
}

int64_t history_detect_us(const struct rdzv *r, const struct run *run)
{
    const struct run_history *h = &run->history;
    int64_t bad_us = goodput_bad_since_us(&h->goodput);
    bool amiss = h->ran_round == run->round.number &&
                 run->round.blame != BLAME_NONE && bad_us < r->now_us;
    return amiss ? r->now_us - bad_us : 0;
}

/* -- steps ----------------------------------------------------------------- */

void history_round_over(struct rdzv *r, struct run *run)
{
    const struct node *least = NULL;
    history_look(r, run);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (node_in_round(n) && n->pace.steps > 0 &&
            (least == NULL || n->pace.steps < least->pace.steps))
            least = n;
    }
    if (least == NULL)
        return;
    run->history.steps = least->pace.steps;
    run->history.micro = pace_micro(&least->pace);
}

/* The first step that is told of a round says where it began, or a little
 * more: those up to where the round before came are done again. */
static void compare_steps(struct run *run, int64_t steps)
{
    struct run_history *h = &run->history;
    if (h->compared_round == run->round.number)
        return;
    h->compared_round = run->round.number;
    if (h->steps == 0 || steps > h->steps)
        return;
    int64_t again = h->steps - steps + 1;
    double us = h->micro > 0 ? (double)again * 1e12 / (double)h->micro : 0;
    goodput_repeat(&h->goodput, again, us < 1e15 ? (int64_t)us : 0);
}

void history_beat(const struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_beat *b)
{
    if (b->steps == 0 || b->round != run->round.number || !node_in_round(n))
        return;
    compare_steps(run, b->steps);
    pace_take(&n->pace, b->steps, b->ahead, (int)b->slow, r->now_us);
}

/* "ranks 4-7 on b were" */
static void name_ranks(const struct node *n, char *text, size_t size)
{
    if (n->nproc == 1)
        (void)snprintf(text, size, "rank %d on %s was", n->base_rank, n->name);
    else
        (void)snprintf(text, size, "ranks %d-%d on %s were", n->base_rank,
                       n->base_rank + n->nproc - 1, n->name);
}

/* The steps of its foremost worker. */
static int64_t most_steps(const struct node *n)
{
    return n->pace.steps + n->pace.ahead;
}

/* The node that is least far; NULL: there is none, or steps of this round do
 * not tell how far its nodes are. */
static const struct node *hindmost(const struct rdzv *r, const struct run *run)
{
    const struct node *last = NULL;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (!node_in_round(n) || n->pace.steps == 0)
            continue;
        if (n->pace.anew)
            return NULL;
        if (last == NULL || most_steps(n) < most_steps(last))
            last = n;
    }
    return last;
}

/*
 * Beats of nodes are told at different times, between which the steps go on: no
 * difference of their last ones proves anything. But a node whose foremost
 * worker is behind a step that all workers of another had reached before has
 * not gone on with them. One step between them is usual: some workers tell a
 * step when it begins, and others are in the one before.
 */
void history_apart(const struct rdzv *r,
                   const struct run *run,
                   char text[HISTORY_APART_MAX])
{
    const struct node *last = hindmost(r, run), *first = NULL;
    char ahead[128], behind[128];
    int64_t most = last != NULL ? most_steps(last) + 1 : 0;
    text[0] = '\0';
    if (last == NULL || run->round.world_size == 0)
        return; /* of a rebuilt round the ranks may not be known */
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        int64_t steps = pace_steps_by(&n->pace, last->pace.at_us);
        if (node_in_round(n) && steps > most) {
            most = steps;
            first = n;
        }
    }
    if (first == NULL)
        return;
    name_ranks(first, ahead, sizeof(ahead));
    name_ranks(last, behind, sizeof(behind));
    (void)snprintf(text, HISTORY_APART_MAX, /* fits */
                   "%s at step %lld when %s at step %lld: a node that does not "
                   "find its snapshot begins anew",
                   ahead, (long long)most - 1, behind,
                   (long long)most_steps(last) - 1);
}

/* -- from server to server ------------------------------------------------- */

void history_restore(const struct rdzv *r,
                     struct run *run,
                     const struct msg_join *j)
{
    struct run_history *h = &run->history;
    struct goodput_parts parts = {.ran_us = 0};
    int64_t granted_us = r->now_us - j->granted_ms * MONO_MS;
    h->ran_round = run->round.number;
    if (j->state == MSG_STATE_NONE || j->round != run->round.number ||
        j->group_rank < 0)
        return; /* a spare, or late: no member of this round */
    (void)goodput_parse(&parts, j->spent); /* an older agent tells none */
    if (goodput_restore(&h->goodput, &parts, r->now_us - j->recent_ms * MONO_MS,
                        r->now_us)) {
        describe_round(r, run);
        struct timeline_round *t = round_of(r, run);
        if (t != NULL)
            t->cost = (struct goodput_parts){.ran_us = 0};
        h->spent = parts;
    }
    if (j->state != MSG_STATE_RUNNING && j->state != MSG_STATE_DONE)
        goodput_bad(&h->goodput, granted_us);
    if (j->server[0] != '\0' && granted_us > h->heard_us)
        h->heard_us = granted_us;
}

void history_tell(const struct rdzv *r,
                  const struct run *run,
                  char text[GOODPUT_TEXT_MAX + 1])
{
    const struct goodput_parts parts =
        goodput_get(&run->history.goodput, r->now_us);
    goodput_print(&parts, text);
}
