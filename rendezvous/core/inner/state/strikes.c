/*
 * One streak per run is enough: a round strikes one node at most, so that a
 * node's streak ends where another node's begins. A cool-down is kept
 * by the node itself (quarantined_until_us) and outlives the streak.
 *
 * A quarantined node is still the run's last reserve: strikes_recall takes it
 * back if the run would have too few nodes without it.
 */
#include "rendezvous/core/inner/state/strikes.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/cause.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/slow_ranks.h"

#define STRIKES_COUNT_MAX 1000000 /* messages.def: strikes */
#define STRUCK                                                                 \
    "its workers were the first to fail, or one of them was slow, %d time%s "  \
    "in a row"

void strikes_init(struct strikes *s, int max, int64_t cooldown_us)
{
    *s = (struct strikes){
        .max = max, .cooldown_us = cooldown_us, .check_us = MONO_NEVER};
}

static void begin_anew(struct strikes *s, const char *agent)
{
    s->count = 0;
    msg_set(s->agent, agent);
}

void strikes_forget(struct strikes *s)
{
    begin_anew(s, "");
}

int strikes_of(const struct run *run, const struct node *n)
{
    return strcmp(run->strikes.agent, n->agent) == 0 ? run->strikes.count : 0;
}

static bool cools_down(const struct rdzv *r, const struct node *n)
{
    return n->quarantined_until_us > r->now_us;
}

static void hold(struct rdzv *r, struct run *run, struct node *n)
{
    node_set_state(r, n, NODE_QUARANTINED);
    run->strikes.check_us =
        mono_min(run->strikes.check_us, n->quarantined_until_us);
}

/* -- counting -------------------------------------------------------------- */

/* The agent that has the strike of the round; NULL: none has. */
static const char *
struck(const struct rdzv *r, const struct run *run, bool failed)
{
    ddp_assert(!failed || run->report.root.round == run->round.number);
    if (failed && !cause_is_consequence(&run->report.root.what))
        return run->report.root.agent;
    const struct node *slowest = slow_ranks_slowest(r, run);
    return slowest != NULL ? slowest->agent : NULL;
}

void strikes_charge(struct rdzv *r, struct run *run, bool failed)
{
    struct strikes *s = &run->strikes;
    const char *agent = s->max > 0 ? struck(r, run, failed) : NULL;
    if (agent == NULL)
        return;
    if (strcmp(s->agent, agent) != 0)
        begin_anew(s, agent);
    if (s->count < STRIKES_COUNT_MAX)
        s->count++;
    struct node *n = node_find(r, run->id, s->agent);
    if (n != NULL && s->count >= s->max)
        n->quarantined_until_us = mono_after(r->now_us, s->cooldown_us);
}

void strikes_believe(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     int64_t count,
                     int64_t quarantined_ms)
{
    struct strikes *s = &run->strikes;
    if (s->max == 0)
        return;
    int64_t left_us = mono_min(quarantined_ms * MONO_MS, s->cooldown_us);
    if (left_us > 0)
        n->quarantined_until_us = mono_after(r->now_us, left_us);
    if (run->recovery.inherited && count > s->count) {
        begin_anew(s, n->agent);
        s->count = (int)count;
    }
}

/* -- quarantine ------------------------------------------------------------ */

/* How many would be left for the next round if one of them were not taken. */
static int others(const struct run *run)
{
    return run->count[NODE_WAITING] + run->count[NODE_SPARE] - 1;
}

static void tell_more(struct rdzv *r, const struct run *run, struct node *n)
{
    note(r, NOTE_quarantined, run, n->name, "for %lld ms more",
         (long long)mono_ms_until(r->now_us, n->quarantined_until_us));
}

static void quarantine(struct rdzv *r, struct run *run, struct node *n)
{
    int count = strikes_of(run, n);
    bool is_new = n->quarantined_until_us ==
                  mono_after(r->now_us, run->strikes.cooldown_us);
    if (others(run) < run->conf.nodes_min && is_new)
        note(r, NOTE_kept, run, n->name,
             STRUCK ", but too few nodes would be left (%d of %d)", count,
             count == 1 ? "" : "s", others(run), run->conf.nodes_min);
    if (others(run) < run->conf.nodes_min)
        return;
    if (is_new)
        note(r, NOTE_quarantined, run, n->name, STRUCK "; for %lld ms", count,
             count == 1 ? "" : "s",
             (long long)(run->strikes.cooldown_us / MONO_MS));
    else
        tell_more(r, run, n);
    hold(r, run, n);
}

void strikes_quarantine(struct rdzv *r, struct run *run)
{
    if (run->strikes.max == 0)
        return;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state == NODE_WAITING && cools_down(r, n))
            quarantine(r, run, n);
    }
}

bool strikes_hold_back(struct rdzv *r, struct run *run, struct node *n)
{
    if (!cools_down(r, n))
        return false;
    tell_more(r, run, n);
    hold(r, run, n);
    return true;
}

void strikes_recall(struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0 && run->count[NODE_QUARANTINED] > 0;
         i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
        if (have >= run->conf.nodes_min)
            return;
        if (n->state != NODE_QUARANTINED)
            continue;
        node_set_state(r, n, NODE_WAITING);
        note(r, NOTE_recalled, run, n->name,
             "too few nodes are there (%d of %d)", have, run->conf.nodes_min);
    }
}

/* -- time ------------------------------------------------------------------ */

static void release(struct rdzv *r, struct run *run, struct node *n)
{
    n->quarantined_until_us = 0;
    if (strikes_of(run, n) > 0)
        begin_anew(&run->strikes, "");
    note(r, NOTE_recalled, run, n->name, "%s", "its cool-down is over");
}

struct node *strikes_take_due(struct rdzv *r, struct run *run)
{
    struct strikes *s = &run->strikes;
    if (r->now_us < s->check_us)
        return NULL;
    int64_t next_us = MONO_NEVER;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state != NODE_QUARANTINED)
            continue;
        if (!cools_down(r, n)) {
            release(r, run, n);
            return n; /* check_us stays due: there may be more */
        }
        next_us = mono_min(next_us, n->quarantined_until_us);
    }
    s->check_us = next_us;
    return NULL;
}

int64_t strikes_deadline(const struct run *run)
{
    return run->count[NODE_QUARANTINED] > 0 ? run->strikes.check_us
                                            : MONO_NEVER;
}
