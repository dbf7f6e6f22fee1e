/*
 * A node goes. What follows depends on what it was (after_removal): a DONE node
 * stays counted as done, a RUNNING one ends the round, a STOPPING one is a loss
 * that explains the failure of the others, one that waits may end a last call.
 *
 * Only proof removes a node that may run workers: its farewell, its own word, a
 * lease that is over. The end of a connection proves nothing, however it ended,
 * so that such a node is only absent (node_broke_off).
 */
#include "rendezvous/core/inner/round/node_gone.h"

#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/round/handover.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/state/run.h"

/*
 * A run that never had a round needs no memory once its last node is gone. Else
 * its rounds must not be counted anew for a node of it that comes back: it
 * waits for such as long as for any node, and ends then.
 */
static void run_if_empty(struct rdzv *r, struct run *run)
{
    if (run->head < 0 && run->state != RUN_ENDED && run->instance[0] == '\0')
        run_forget(r, run);
}

/* What the run does about a node that is no more. `why` is for people. */
static void after_removal(struct rdzv *r,
                          struct run *run,
                          enum node_state state,
                          bool member,
                          const char *why)
{
    if (run->state == RUN_ACTIVE && state == NODE_DONE) {
        run->round.gone_done++;
        round_try_done(r, run);
    } else if (run->state == RUN_ACTIVE && state == NODE_RUNNING) {
        round_blame_node(run);
        round_over(r, run, why, MSG_AT_ONCE);
    } else if (run->state == RUN_DRAIN) {
        /* Also one that was ready: it may have been dying when it failed. */
        if (state == NODE_STOPPING || (state == NODE_WAITING && member))
            round_blame_node(run);
        if (state == NODE_STOPPING || state == NODE_LEAVING)
            round_hurry(r, run, why);
        round_try_drained(r, run);
    } else if (run->state == RUN_PENDING && state == NODE_PENDING) {
        propose_give_up(r, run, why);
        round_try_seal(r, run);
    } else if (run->state == RUN_GATHER) {
        round_try_seal(r, run);
    }
    run_try_settle(r, run);
    run_if_empty(r, run);
}

/* Also of one that was ready: it may have been dying when it failed. */
static bool is_loss(const struct run *run, enum node_state state, bool member)
{
    return state == NODE_PENDING || state == NODE_RUNNING ||
           state == NODE_STOPPING ||
           (run->state == RUN_DRAIN && state == NODE_WAITING && member);
}

/* The first one is what a report will name. */
static void remember_loss(struct rdzv *r,
                          struct run *run,
                          const struct node *n,
                          const char *how)
{
    if (run->report.loss.node[0] != '\0')
        return;
    msg_set(run->report.loss.node, n->name);
    msg_set(run->report.loss.how, how);
    run->report.loss.at_us = r->now_us;
}

/* As one that was in `state`, which need not be its own. `how` is behind its
 * name in a sentence; `more` is what a line about it says. */
static void go(struct rdzv *r,
               struct node *n,
               enum node_state state,
               const char *how,
               const char *more)
{
    struct run *run = &r->runs[n->run];
    bool member = n->group_rank >= 0;
    char why[200];
    if (is_loss(run, state, member))
        remember_loss(r, run, n, how);
    (void)snprintf(why, /* fits */ sizeof(why), "node %s %s", n->name, how);
    if (state == NODE_PENDING || state == NODE_RUNNING ||
        state == NODE_STOPPING)
        note(r, NOTE_lost, run, n->name, "%s", more);
    else if (run->state != RUN_ENDED)
        note(r, NOTE_left, run, n->name, "%s", more);
    node_remove(r, n);
    after_removal(r, run, state, member, why);
}

void node_gone(struct rdzv *r, struct node *n, const char *how)
{
    go(r, n, n->state, how, how);
}

void node_left(struct rdzv *r, struct node *n)
{
    /* As one that runs no workers either. */
    handover_begin(r, n);
    go(r, n, NODE_DRAINED, "left", "its workers have ended");
}

void node_expired(struct rdzv *r, struct node *n)
{
    phase_lost(&r->runs[n->run], n);
    node_gone(r, n, "is silent: its lease is over");
}

void node_broke_off(struct rdzv *r, struct node *n)
{
    node_unbind(r, n);
    /* A node that is in no round is not waited for. But one that was told to go
     * must not come back as if it had not been. */
    if (!node_in_round(n) && n->group_rank < 0 && n->state != NODE_ENDED &&
        !n->drained) {
        node_gone(r, n, "lost its connection");
        return;
    }
    run_try_settle(r, &r->runs[n->run]);
    if (n->state != NODE_ENDED)
        note(r, NOTE_absent, &r->runs[n->run], n->name,
             "its connection broke; waiting %lld ms for it",
             (long long)mono_ms_until(r->now_us, n->lease_until_us));
}
