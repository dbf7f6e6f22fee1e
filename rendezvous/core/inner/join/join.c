/*
 * Joining: what a node that comes is given. Which nodes are refused is in
 * join_check.c. A node that the server knows is told again what it must know;
 * one that it does not know may hold a round of a server that is no more: what
 * it tells is noted until this server has the majority (election.c).
 */
#include "rendezvous/core/inner/join/join.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/round/capacity.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/join/join_check.h"
#include "rendezvous/core/inner/join/inherit.h"
#include "rendezvous/core/inner/join/join_settle.h"
#include "rendezvous/core/inner/join/moved.h"
#include "rendezvous/core/inner/round/node_gone.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* A node that the server knows, on a new connection: the server's answer was
 * perhaps lost with the old one, so it says again what the node must know. */
static void rejoin(struct rdzv *r, struct node *n, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct run *run = &r->runs[n->run];
    n->moved = node_set_address(n, ev);
    if (n->conn >= 0) {
        int old = n->conn;
        node_unbind(r, n);
        reply_drop(r, old);
    }
    node_bind(r, n, ev->conn);
    node_begin_beats(n);
    note(r, NOTE_back, run, n->name, "%s", "");
    if (election_rejoin(r, run, n, j))
        return;
    join_tell_again(r, run, n, j);
}

/* A node that the server does not know. It may hold a round all the same. */
static void
join_new(struct rdzv *r, struct run *run, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct node *n = node_new(r, run, ev);
    round_forget_refusal(run, j->name);
    if (election_join(r, run, n, j))
        return;
    join_settle(r, run, n, j);
}

/* -- the run it comes into ------------------------------------------------- */

/* In a slot that is free. */
static struct run *run_open(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    struct run *run = capacity_free_run(r);
    ddp_assert(run != NULL);
    *run = (struct run){
        .state = RUN_GATHER,
        .conf = {.nodes_min = (int)j->nodes_min,
                 .nodes_max = (int)j->nodes_max,
                 .join_us = j->join_ms * MONO_MS,
                 .last_call_us = j->last_call_ms * MONO_MS,
                 .heartbeat_us = j->heartbeat_ms * MONO_MS,
                 .scale_us = j->scale_ms * MONO_MS},
        .opened_us = r->now_us,
        .head = -1,
        .tail = -1,
    };
    budget_init(&run->budget, (int)j->max_restarts, j->window_ms * MONO_MS,
                (int)j->crash_loop);
    strikes_init(&run->strikes, (int)j->node_strikes, j->cooldown_ms * MONO_MS);
    msg_set(run->id, j->run);
    msg_set(run->conf.options, j->options);
    note(r, NOTE_new_run, run, "", "nodes %d..%d, restarts %d, program %s",
         run->conf.nodes_min, run->conf.nodes_max, run->budget.max,
         run_program(run));
    phase_begin(r, run);
    round_gather(r, run);
    election_open(r, run, 0);
    return run;
}

/* Told so each time that it tries, and not to those that wait: it tries again.
 */
static void put_off(struct rdzv *r, const struct run *run, int conn)
{
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused.code = DDP_E_UNREACHABLE};
    int most = 2 * run->conf.nodes_min - 1;
    (void)snprintf(m.refused.text, sizeof(m.refused.text), /* fits */
                   "run '%s' takes at most %d launcher%s at a time, so that no "
                   "two groups of MIN nodes (--nnodes=MIN:MAX) can go on "
                   "without each other; this one comes in when another is gone",
                   run->id, most, most == 1 ? "" : "s");
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

/* Whether a launcher that runs nothing may come as well: a strict run has fewer
 * than make two groups. Those that were lost are nodes until their leases are
 * over. */
static bool may_admit(const struct run *run, const struct msg_join *j)
{
    int n = run_nodes_here(run) + run->absent;
    return !run->authority.rules.strict || j->state != MSG_STATE_NONE ||
           n + 1 < 2 * run->conf.nodes_min;
}

/* The run that an unknown node may come into, or NULL: it was refused. */
static struct run *run_for(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    int conn = ev->conn;
    struct run *run = run_find(r, j->run);
    if (run != NULL && j->round == 0 && run_is_abandoned(run, r->now_us)) {
        run_forget(r, run); /* a fresh start is a new instance */
        run = NULL;
    }
    if (run != NULL && !join_agrees(r, run, j, conn))
        return NULL;
    bool is_older = run != NULL && j->state != MSG_STATE_NONE && j->round > 0 &&
                    run->instance[0] != '\0' &&
                    !inherit_is_of_instance(run, j) &&
                    !inherit_is_younger(r, run, j);
    if (is_older) {
        /* The majority of its instance may be elsewhere: no word of ours is to
         * end it. */
        note(r, NOTE_refused, run, j->name,
             "it holds an older instance; connection closed");
        reply_drop(r, conn);
        return NULL;
    }
    if (!election_is_sound(r, run, j, conn))
        return NULL;
    if (run != NULL && !may_admit(run, j)) {
        put_off(r, run, conn);
        return NULL;
    }
    if (!capacity_make(r, run)) {
        char limits[CAPACITY_TEXT_MAX];
        capacity_text(r, limits);
        join_refuse(r, conn, j, DDP_E_NOMEM,
                    "this rendezvous is full (%s): wait until a run ends, or "
                    "start ddprdzvd with higher limits",
                    limits);
        return NULL;
    }
    return run != NULL ? run : run_open(r, ev);
}

/* -- ends ------------------------------------------------------------------ */

/* Others may have gone on elsewhere. */
static bool is_superseded(const struct run *run, const struct msg_join *j)
{
    return j->term.count > run->authority.term.count || !run_end_is_known(run);
}

/* The ended run whose result a straggler must get; others of the same id may
 * have started and ended since. */
static const struct run *run_find_ended(const struct rdzv *r,
                                        const struct msg_join *j)
{
    if (j->instance[0] == '\0')
        return NULL;
    for (int i = 0; i < r->limits.runs_max; i++) {
        const struct run *run = &r->runs[i];
        if (run->state == RUN_ENDED && strcmp(run->id, j->run) == 0 &&
            !is_superseded(run, j) &&
            msg_same_instance(run->instance, j->instance))
            return run;
    }
    return NULL;
}

/* An agent hears who leads before it believes an end. */
static void tell_end(struct rdzv *r,
                     const struct run *run,
                     const struct msg_end *end,
                     int conn)
{
    struct msg m = {.kind = MSG_KIND_end, .end = *end};
    msg_set_name(m.end.instance, end->instance);
    if (run->authority.term.count > 0)
        reply_prepare(r, run, conn);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

/*
 * The word of one node ends no run. If this server is the leader,
 * and the node obeyed no later one, the run goes on without the node, which may
 * go; of another instance nothing is known here. Else it is a claim as any.
 */
static bool join_of_void_end(struct rdzv *r, const struct msg_join *j, int conn)
{
    const struct run *run = run_find(r, j->run);
    if (run == NULL || run->round.number == 0)
        return false;
    if (!msg_same_instance(run->instance, j->instance))
        note(r, NOTE_refused, run, j->name,
             "it was told of the end of another instance; connection closed");
    else if (run->authority.state == AUTHORITY_LEADER &&
             term_cmp(&j->term, &run->authority.term) <= 0)
        election_void_end(r, run, j, conn);
    else
        return false;
    reply_drop(r, conn);
    return true;
}

/* It is as if this server had been started anew: nodes that are here come
 * again, and tell what they hold. True where `known` is no more. */
static bool forget_outdated(struct rdzv *r,
                            const struct msg_join *j,
                            const struct node *known)
{
    bool forgot = false;
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        bool is_here = known != NULL && known->run == i;
        if (run->state == RUN_FREE || strcmp(run->id, j->run) != 0)
            continue;
        if (!election_outdates(run, j))
            continue;
        election_forget(r, run, j->name);
        forgot |= is_here;
    }
    return forgot;
}

/* -- all joins ------------------------------------------------------------- */

void join_step(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_join *j = &ev->msg->join;
    if (!join_is_sound(r, j, ev->conn))
        return;
    if (moved_answer(r, j, ev->conn))
        return;
    struct node *known = node_find(r, j->run, j->agent);
    if (forget_outdated(r, j, known))
        known = NULL;
    if (known != NULL && election_is_foreign(&r->runs[known->run], j)) {
        node_gone(r, known, "went over to another instance of the run");
        known = NULL;
    }
    if (known != NULL) {
        rejoin(r, known, ev);
        return;
    }
    const struct run *ended = run_find_ended(r, j);
    if (ended != NULL) {
        tell_end(r, ended, &ended->end.msg, ev->conn);
        return;
    }
    if (j->ended && join_of_void_end(r, j, ev->conn))
        return;
    struct run *run = run_for(r, ev);
    if (run == NULL)
        return;
    join_new(r, run, ev);
}
