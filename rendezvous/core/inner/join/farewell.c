/*
 * Happy path: a guard says farewell for its node. The node is gone, and its
 * voter is dead (election_farewell), which holds for good: no launcher has that
 * id again.
 *
 * Often no node of the run is here yet: the farewell of the host that served a
 * run comes to the places where the others are about to meet. So each farewell
 * is kept, with what the launcher had accepted, and applied whenever the run
 * changes.
 *
 * Failure modes: it comes twice, late, or to a server that does not have the
 * run: nothing happens. So many come that an old one is forgotten: that voter
 * is a silent one then, and the wait is for its lease. The launcher had
 * promised to obey a later server than this one: this one gives up what it
 * knows.
 */
#include "rendezvous/core/inner/join/farewell.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/join/inherit.h"
#include "rendezvous/core/inner/round/handover.h"
#include "rendezvous/core/inner/round/node_gone.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/run.h"

#define FAREWELLS_MAX 64
#define KEPT_US       (600 * MONO_S)

struct farewell {
    int64_t heard_us; /* 0: the slot is free */
    struct msg_vote said;
};

struct farewells {
    int n; /* slots that were ever used: the first ones */
    struct farewell all[FAREWELLS_MAX];
};

struct farewells *farewell_new(void)
{
    return calloc(1, sizeof(struct farewells));
}

void farewell_del(struct farewells *f)
{
    free(f);
}

/* -- keeping them ---------------------------------------------------------- */

static bool is_kept(const struct rdzv *r, const struct farewell *f)
{
    return f->heard_us > 0 && r->now_us < mono_after(f->heard_us, KEPT_US);
}

static bool is_known(const struct rdzv *r, const struct msg_vote *said)
{
    const struct farewells *all = r->farewells;
    for (int i = 0; i < all->n; i++)
        if (is_kept(r, &all->all[i]) &&
            strcmp(all->all[i].said.agent, said->agent) == 0 &&
            strcmp(all->all[i].said.run, said->run) == 0)
            return true;
    return false;
}

/* A free slot, a new one, or that of the oldest. */
static struct farewell *slot_for(struct rdzv *r)
{
    struct farewells *all = r->farewells;
    struct farewell *oldest = &all->all[0];
    for (int i = 0; i < all->n; i++) {
        struct farewell *f = &all->all[i];
        if (!is_kept(r, f))
            return f;
        if (f->heard_us < oldest->heard_us)
            oldest = f;
    }
    return all->n < FAREWELLS_MAX ? &all->all[all->n++] : oldest;
}

/* It says something of a round or of a vote, for which others may ask later. */
static void keep(struct rdzv *r, const struct msg_vote *said)
{
    if ((said->term.count == 0 && said->round == 0) || is_known(r, said))
        return;
    *slot_for(r) = (struct farewell){.heard_us = r->now_us, .said = *said};
}

/* -- what follows ---------------------------------------------------------- */

/* Its group rank in the round that is known here; -1: it was not in that, or
 * nobody can tell. All members of a small round are its voters, in order. */
static int place_of(const struct run *run, const struct msg_vote *said)
{
    const struct authority *a = &run->authority;
    const struct voters *now = &a->sets[AUTHORITY_NOW];
    if (said->round == a->round &&
        term_cmp(&said->round_term, &a->round_term) == 0 &&
        said->group_world == run->round.group_world)
        return (int)said->group_rank;
    return run->round.group_world == now->n ? voters_find(now, said->agent)
                                            : -1;
}

static void
close_hole(struct rdzv *r, struct run *run, const struct msg_vote *said)
{
    if (run->recovery.holes == 0 ||
        (said->instance[0] != '\0' &&
         !msg_same_instance(said->instance, run->instance)))
        return;
    int place = place_of(run, said);
    if (place >= 0 && place < run->round.group_world)
        inherit_close_hole(r, run, place,
                           said->done && said->round == run->round.number);
}

static bool is_about(const struct run *run, const struct farewell *f)
{
    return run_is_live(run) && strcmp(f->said.run, run->id) == 0;
}

void farewell_close_holes(struct rdzv *r, struct run *run)
{
    for (int i = 0; i < r->farewells->n; i++) {
        const struct farewell *f = &r->farewells->all[i];
        if (is_kept(r, f) && is_about(run, f))
            close_hole(r, run, &f->said);
    }
}

void farewell_tell(struct rdzv *r, struct run *run)
{
    for (int i = 0; i < r->farewells->n; i++) {
        const struct farewell *f = &r->farewells->all[i];
        if (!is_kept(r, f) || !is_about(run, f))
            continue;
        if (!election_farewell(r, run, &f->said, f->heard_us)) {
            election_forget(r, run, f->said.name);
            return; /* it is touched: this follows again */
        }
        close_hole(r, run, &f->said);
    }
}

/* If it is our own launcher this server is about to end with it. Nothing is to
 * follow: a server that takes over has to see what it would have seen a moment
 * before. */
static void remove_node(struct rdzv *r, const struct msg_vote *said)
{
    struct node *n = node_find(r, said->run, said->agent);
    if (n == NULL || handover_is_ours(r, n))
        return;
    const struct run *run = &r->runs[n->run];
    int conn = n->conn;
    /* Its vote is not waited for until the end is final (clause 6). */
    if (run->state == RUN_ENDED &&
        term_cmp(&said->term, &run->authority.term) <= 0)
        node_says(r, n, AUTHORITY_FAREWELL, 0);
    node_unbind(r, n);
    if (conn >= 0)
        reply_drop(r, conn);
    node_gone(r, n, "is gone: its launcher ended");
}

void farewell_hear(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_vote *said = &ev->msg->vote;
    reply_drop(r, ev->conn); /* which is the answer */
    if (said->version != MSG_VERSION)
        return;
    keep(r, said);
    struct run *run = run_find(r, said->run);
    if (run != NULL)
        farewell_tell(r, run);
    remove_node(r, said);
    run = run_find(r, said->run);
    if (run != NULL)
        rdzv_touch(r, run);
}
