/*
 * Messages of nodes that have joined.
 *
 * Happy path: done from every node ends the run (round_end.c). A failure ends
 * the round: failed, then ready from each node once its workers are dead, and
 * when the last of them has said so the next round gathers (round_try_drained).
 *
 * Failure modes: a message may be of an older round, and then was under way
 * when that was over: it is noted and ignored (is_current). It may come twice,
 * after a reconnect: the second one finds a state in which it means nothing. A
 * failure may come after the round was over for another reason: it counts only
 * if its age says that it came before.
 */
#include "rendezvous/core/inner/join/member.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/signals_name.h"
#include "rendezvous/core/inner/state/cause.h"
#include "rendezvous/core/inner/state/steps.h"
#include "rendezvous/core/inner/join/join_place.h"
#include "rendezvous/core/inner/round/command.h"
#include "rendezvous/core/inner/round/handover.h"
#include "rendezvous/core/inner/round/node_gone.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_end.h"
#include "rendezvous/core/inner/state/run.h"

static bool is_current(struct rdzv *r,
                       struct run *run,
                       const struct node *n,
                       int64_t round,
                       const char *what)
{
    if (round == run->round.number)
        return true;
    note(r, NOTE_stale, run, n->name, "%s of round %lld", what,
         (long long)round);
    return false;
}

void member_failed(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_failed *f)
{
    if (!is_current(r, run, n, f->round, "failure"))
        return;
    if (n->state != NODE_RUNNING && n->state != NODE_STOPPING)
        return;
    bool late =
        run->state == RUN_DRAIN && r->now_us - f->age_us > run->round.over_us;
    bool explains =
        (round_worker_failed(run) || !late) && cause_take(r, run, n, f);
    if (run->state == RUN_ACTIVE)
        steps_apart(r, run, run->report.apart);
    char how[200], why[204 + STEPS_APART_MAX];
    cause_describe(n, f, how, sizeof(how));
    (void)snprintf(why, sizeof(why), "%s%s%s", how, /* fits */
                   run->report.apart[0] != '\0' ? "; " : "", run->report.apart);
    if (round_worker_failed(run) &&
        explains) /* the cause of what was told before */
        round_tell_why(r, run, why);
    round_hurry(r, run, why);
    if (round_worker_failed(run) || late)
        return;
    round_blame_worker(run);
    note(r, NOTE_failed, run, n->name, "%s", why);
    round_over(r, run, why, MSG_AT_ONCE);
}

/* -- ready ----------------------------------------------------------------- */

/* Its workers are dead: the lease under which they ran is no more. */
static void become_waiting(struct rdzv *r, struct run *run, struct node *n)
{
    node_set_state(r, n, n->drained ? NODE_DRAINED : NODE_WAITING);
    node_cut_lease(r, n, run->conf.heartbeat_us);
}

/* What the report calls consequences. */
static void
take_ends(struct run *run, const struct node *n, const struct msg_ready *m)
{
    struct exits all, part;
    exits_add_counts(&run->report.ends, m->counts);
    exits_parse(&all, m->ends);
    exits_filter(&all, -SIGTERM, true, &part);
    exits_merge(run->report.exits_list, m->base_rank, n->name, &part);
    exits_filter(&all, -SIGTERM, false, &part);
    exits_merge(run->report.stopped_list, m->base_rank, n->name, &part);
}

/* Whether they all ended as those do that were asked to leave: see has_obeyed
 * in launcher/agent/work.c. */
static bool left_in_order(const struct msg_ready *m)
{
    struct exits all, others, bad;
    struct exits_counts n = {.by_term = 0};
    exits_add_counts(&n, m->counts);
    exits_parse(&all, m->ends);
    exits_filter(&all, -SIGTERM, true, &others);
    exits_filter(&others, 128 + SIGTERM, true, &bad);
    return n.by_kill == 0 && n.by_signal == 0 && bad.n == 0;
}

/* One that did not is missing at the step at which the others leave. */
static void hurry_unless_in_order(struct rdzv *r,
                                  struct run *run,
                                  const struct msg_ready *m)
{
    if (!left_in_order(m))
        round_hurry(r, run, "workers ended before all could leave at a step");
}

/* Of the round that it was told to stop, or of an earlier one, under way. */
static void ready_of_stale(struct rdzv *r,
                           struct run *run,
                           struct node *n,
                           const struct msg_ready *m)
{
    if (m->round != n->stale_round) {
        note(r, NOTE_stale, run, n->name, "ready of round %lld",
             (long long)m->round);
        return;
    }
    node_cut_lease(r, n, run->conf.heartbeat_us);
    join_place(r, run, n);
}

/* As it was told to. */
static void ready_of_stopping(struct rdzv *r,
                              struct run *run,
                              struct node *n,
                              const struct msg_ready *m)
{
    take_ends(run, n, m);
    become_waiting(r, run, n);
    hurry_unless_in_order(r, run, m);
    round_try_drained(r, run);
}

/* Its farewell will come, too. */
static void ready_of_leaving(struct rdzv *r,
                             struct run *run,
                             struct node *n,
                             const struct msg_ready *m)
{
    hurry_unless_in_order(r, run, m);
    node_left(r, n);
}

/* The node has killed its workers since its lease was over, or an older server
 * has told it that the round is over. */
static void ready_of_running(struct rdzv *r,
                             struct run *run,
                             struct node *n,
                             const struct msg_ready *m)
{
    char why[128];
    (void)snprintf(why, sizeof(why), /* may be cut */
                   "node %s stopped its workers", n->name);
    take_ends(run, n, m);
    become_waiting(r, run, n);
    round_blame_node(run);
    round_over(r, run, why, MSG_AT_ONCE);
}

void member_ready(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_ready *m)
{
    int64_t round = m->round;
    if (round == run->round.number && node_in_round(n) && m->progress)
        run->round.progressed =
            true; /* another instance has the same numbers */
    switch (n->state) {
    case NODE_STALE:
        ready_of_stale(r, run, n, m);
        return;
    case NODE_STOPPING:
        if (is_current(r, run, n, round, "ready"))
            ready_of_stopping(r, run, n, m);
        return;
    case NODE_RUNNING:
        if (is_current(r, run, n, round, "ready"))
            ready_of_running(r, run, n, m);
        return;
    case NODE_LEAVING:
        /* One of an earlier round, under way when it was told to go, does not
         * mean that no worker is left. Its farewell comes in any case. */
        if (is_current(r, run, n, round, "ready"))
            ready_of_leaving(r, run, n, m);
        return;
    case NODE_JOINING: /* see election_note */
    case NODE_PENDING:
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_QUARANTINED:
    case NODE_DONE:
    case NODE_DRAINED:
    case NODE_ENDING:
    case NODE_ENDED:
        return; /* said twice, after a reconnect */
    case NODE_FREE:
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

/* -- done, and going ------------------------------------------------------- */

void member_done(struct rdzv *r, struct run *run, struct node *n, int64_t round)
{
    if (!is_current(r, run, n, round, "done") || n->state != NODE_RUNNING)
        return;
    node_set_state(r, n, NODE_DONE);
    note(r, NOTE_done, run, n->name, "%d of %d",
         run->count[NODE_DONE] + run->round.gone_done, run->round.group_world);
    round_try_done(r, run);
}

/* By a member of the last round: a newcomer or a spare speaks for itself. */
static void on_leave_all(struct rdzv *r,
                         struct run *run,
                         const struct node *n,
                         const struct msg_leave *l)
{
    struct msg_end end = {
        .status = 128 + l->signal,
        .round = run->round.number,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    char by[CAUSE_SIGNAL_MAX];
    (void)snprintf(end.text, /* fits */
                   sizeof(end.text), "ended by %s on node %s",
                   cause_signal(l->signal, by), n->name);
    run_end(r, run, &end);
}

void member_leave(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_leave *l)
{
    if (run->state == RUN_ENDED)
        return;
    if (l->what == MSG_LEAVE_ASKS) {
        command_drain_asked(r, n);
        return;
    }
    node_says(r, n, AUTHORITY_LEAVES, 0);
    if (l->what == MSG_LEAVE_ALL && n->group_rank >= 0) {
        on_leave_all(r, run, n, l);
        return;
    }
    if (n->state == NODE_LEAVING)
        return; /* said twice, after a reconnect */
    if (!node_in_round(n) || n->state == NODE_DONE) {
        handover_begin(r, n);
        node_gone(r, n, "leaves"); /* what it did stays done */
        return;
    }
    char why[128];
    (void)snprintf(why, sizeof(why), "node %s leaves", n->name);
    char by[CAUSE_SIGNAL_MAX];
    if (l->signal != 0)
        note(r, NOTE_left, run, n->name, "%s", cause_signal(l->signal, by));
    else /* by the order of a server that is no more */
        note(r, NOTE_left, run, n->name, "%s", "drained");
    node_set_state(r, n, NODE_LEAVING);
    round_blame_node(run); /* whatever fails now is a consequence */
    round_over(r, run, why, MSG_SCALE_DOWN);
    round_try_drained(r, run);
}

void member_bye(struct rdzv *r, struct run *run, struct node *n)
{
    node_says(r, n, AUTHORITY_BYE, 0);
    if (n->state != NODE_ENDING) {
        node_gone(r, n, "said bye");
        return;
    }
    node_clear_bye(r, n);
    run_try_settle(r, run);
}
