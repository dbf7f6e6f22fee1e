/*
 * Happy path: joins come in, round_try_seal seals, each node gets its world;
 * done from all of them ends the run. Everything else is a way back to that:
 * a failure, a loss, a departure or a newcomer ends the round (round_over);
 * when no worker of it can be alive any more the next one is gathered.
 */
#include "rendezvous/core/rdzv.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/round.h"

#define SAME_TIME_US                                                           \
    (200 * MONO_MS) /* failures closer than this are weighed                   \
                     */

static void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        DDP_WRONG("out of memory while the rendezvous starts");
    return p;
}

struct rdzv *rdzv_new(const struct rdzv_limits *limits, uint64_t seed)
{
    ddp_assert(limits->runs_max > 0 && limits->nodes_max > 0);
    struct rdzv *r = xcalloc(1, sizeof(*r));
    r->limits = *limits;
    size_t nodes_max = (size_t)limits->nodes_max;
    r->runs = xcalloc((size_t)limits->runs_max, sizeof(r->runs[0]));
    r->nodes = xcalloc(nodes_max, sizeof(r->nodes[0]));
    r->places = xcalloc(nodes_max, sizeof(r->places[0]));
    r->scratch = xcalloc(nodes_max, sizeof(r->scratch[0]));
    r->taken = xcalloc((size_t)limits->runs_max, nodes_max / 8 + 1);
    r->conn_node = xcalloc((size_t)limits->conns_max, sizeof(int));
    r->n_buckets = 16;
    while (r->n_buckets < nodes_max)
        r->n_buckets *= 2;
    r->buckets = xcalloc(r->n_buckets, sizeof(int));
    r->node_sources = sources_new(limits->nodes_max);
    r->run_sources = sources_new(limits->runs_max);
    node_init(r);
    r->lease_check_us = MONO_NEVER;
    rng_init(&r->rng, seed);
    return r;
}

void rdzv_del(struct rdzv *r)
{
    if (r == NULL)
        return;
    free(r->runs);
    free(r->nodes);
    free(r->places);
    free(r->scratch);
    free(r->taken);
    free(r->conn_node);
    free(r->buckets);
    sources_del(r->node_sources);
    sources_del(r->run_sources);
    free(r);
}

/* -- a node goes ---------------------------------------------------------- */

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
        run->gone_done++;
        round_try_done(r, run);
    } else if (run->state == RUN_ACTIVE && state == NODE_RUNNING) {
        run->lost_since = true;
        round_over(r, run, why, MSG_AT_ONCE);
    } else if (run->state == RUN_DRAIN) {
        /* Also one that was ready: it may have been dying when it failed. */
        if (state == NODE_STOPPING || (state == NODE_WAITING && member))
            run->lost_since = true;
        if (state == NODE_STOPPING)
            round_hurry(r, run, why);
        round_try_drained(r, run);
    } else if (run->state == RUN_GATHER) {
        round_try_seal(r, run);
    }
    round_try_settle(r, run);
    run_if_empty(r, run);
}

/* Also of one that was ready: it may have been dying when it failed. */
static bool is_loss(const struct run *run, enum node_state state, bool member)
{
    return state == NODE_RUNNING || state == NODE_STOPPING ||
           (run->state == RUN_DRAIN && state == NODE_WAITING && member);
}

/* The first one is what a report will name. */
static void remember_loss(struct rdzv *r,
                          struct run *run,
                          const struct node *n,
                          const char *how)
{
    if (run->loss.node[0] != '\0')
        return;
    msg_set(run->loss.node, n->name);
    msg_set(run->loss.how, how);
    run->loss.at_us = r->now_us;
}

void node_gone(struct rdzv *r, struct node *n, const char *how)
{
    struct run *run = &r->runs[n->run];
    enum node_state state = n->state;
    bool member = n->group_rank >= 0;
    char why[200];
    if (is_loss(run, state, member))
        remember_loss(r, run, n, how);
    (void)snprintf(why, /* fits */ sizeof(why), "node %s %s", n->name, how);
    if (state == NODE_RUNNING || state == NODE_STOPPING)
        note(r, NOTE_lost, run, n->name, "%s", how);
    else if (state != NODE_ENDING)
        note(r, NOTE_left, run, n->name, "%s", how);
    node_remove(r, n);
    after_removal(r, run, state, member, why);
}

static void on_closed(struct rdzv *r, const struct rdzv_event *ev)
{
    struct node *n = node_at(r, r->conn_node[ev->conn]);
    if (n == NULL)
        return;
    node_unbind(r, n);
    if (ev->orderly) {
        node_gone(r, n, "is gone: its launcher ended");
        return;
    }
    /* Who is in no round has nothing to be waited for; but one who was told to
     * go must not come back as if it had not been. */
    if (!node_in_round(n) && n->group_rank < 0 && n->state != NODE_ENDING &&
        !n->drained) {
        node_gone(r, n, "broke off");
        return;
    }
    round_try_settle(r, &r->runs[n->run]);
    if (n->state != NODE_ENDING)
        note(r, NOTE_absent, &r->runs[n->run], n->name,
             "connection broken; waiting %lld ms for it",
             (long long)mono_ms_until(r->now_us, n->lease_until_us));
}

static void expire_leases(struct rdzv *r)
{
    if (r->now_us < r->lease_check_us)
        return;
    for (int i = 0; i < r->fresh_node; i++) {
        struct node *n = &r->nodes[i];
        if (!n->used || n->lease_until_us > r->now_us)
            continue;
        r->account = node_source(r, n);
        node_gone(r, n, "is silent: its lease is over");
    }
    /* Only now, since a loss may have changed other nodes. */
    r->lease_check_us = MONO_NEVER;
    for (int i = 0; i < r->fresh_node; i++)
        if (r->nodes[i].used)
            r->lease_check_us =
                mono_min(r->lease_check_us, r->nodes[i].lease_until_us);
}

/* -- what members say ----------------------------------------------------- */

static bool is_current(struct rdzv *r,
                       struct run *run,
                       const struct node *n,
                       int64_t round,
                       const char *what)
{
    if (round == run->round)
        return true;
    note(r, NOTE_stale, run, n->name, "%s of round %lld", what,
         (long long)round);
    return false;
}

/*
 * Failures that came about at the same time are weighed, not only timed: a
 * killed process's connections break before its end can be seen, so that a
 * peer which saw that may well have ended first, and says so by status 77
 * (DDP_E_PEER); and nobody ends by these signals as a consequence.
 */
static int weight(const struct msg_failed *f)
{
    if (f->signal == 0)
        return f->code == ddp_code_exit(DDP_E_PEER) ? 0 : 1;
    bool never_a_consequence = f->signal == SIGKILL || f->signal == SIGSEGV ||
                               f->signal == SIGBUS || f->signal == SIGILL ||
                               f->signal == SIGFPE;
    return never_a_consequence ? 2 : 1;
}

/* Whether `f`, of `at_us`, is a better root cause than what is known. */
static bool is_deeper(const struct failure *known,
                      const struct msg_failed *f,
                      int64_t at_us)
{
    int more = weight(f) - weight(&known->what);
    int64_t apart_us = at_us - known->at_us;
    if (apart_us < 0)
        apart_us = -apart_us;
    if (more != 0 && apart_us <= SAME_TIME_US)
        return more > 0;
    return at_us < known->at_us;
}

/* By status 77 a worker says that its peer went first: never a root. */
static bool is_consequence(const struct msg_failed *f)
{
    return !f->hung && weight(f) == 0;
}

/* Keeps the failure that the others are consequences of. True: until now only a
 * consequence of it was known. */
static bool take_root(struct rdzv *r,
                      struct run *run,
                      const struct node *n,
                      const struct msg_failed *f)
{
    int64_t at_us = r->now_us - f->age_us;
    if (run->root.known && !is_deeper(&run->root, f, at_us))
        return false;
    bool explains = run->root.known && is_consequence(&run->root.what) &&
                    !is_consequence(f);
    run->root.known = true;
    run->root.at_us = at_us;
    run->root.what = *f;
    run->root.round = run->round;
    msg_set(run->root.node, n->name);
    msg_set(run->root.agent, n->agent);
    run->last = run->root;
    return explains;
}

static void describe_failure(const struct node *n,
                             const struct msg_failed *f,
                             char *why,
                             size_t size)
{
    if (f->hung)
        (void)snprintf(why, size, "rank %lld on %s made no progress",
                       (long long)f->rank, n->name);
    else if (f->signal != 0)
        (void)snprintf(why, size, "rank %lld on %s was killed by signal %lld",
                       (long long)f->rank, n->name, (long long)f->signal);
    else if (is_consequence(f))
        (void)snprintf(why, size,
                       "rank %lld on %s lost a peer (exit code %lld); which "
                       "one, and why, is not known yet",
                       (long long)f->rank, n->name, (long long)f->code);
    else
        (void)snprintf(why, size, "rank %lld on %s ended with exit code %lld",
                       (long long)f->rank, n->name, (long long)f->code);
}

/*
 * The first failure ends the round and is charged. What fails after the round
 * was over is a consequence of that, unless its age tells that it came before
 * and only its message came later.
 */
static void on_failed(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_failed *f)
{
    if (!is_current(r, run, n, f->round, "failure"))
        return;
    if (n->state != NODE_RUNNING && n->state != NODE_STOPPING)
        return;
    bool late = run->state == RUN_DRAIN && r->now_us - f->age_us > run->over_us;
    bool explains = (run->charged || !late) && take_root(r, run, n, f);
    char why[200];
    describe_failure(n, f, why, sizeof(why));
    if (run->charged && explains) /* the cause of what was told before */
        round_tell_why(r, run, why);
    if (run->charged || late)
        return;
    run->charged = true;
    note(r, NOTE_failed, run, n->name, "%s", why);
    round_hurry(r, run, why);
    round_over(r, run, why, MSG_AT_ONCE);
}

/* Its workers are dead: the lease under which they ran is no more. */
static void become_waiting(struct rdzv *r, struct run *run, struct node *n)
{
    node_set_state(r, n, n->drained ? NODE_DRAINED : NODE_WAITING);
    node_cut_lease(r, n, run->heartbeat_us);
}

/* What the report calls consequences. */
static void
take_ends(struct run *run, const struct node *n, const struct msg_ready *m)
{
    struct ends all, part;
    run->ends.by_term += m->by_term;
    run->ends.by_kill += m->by_kill;
    run->ends.by_signal += m->by_signal;
    run->ends.by_code += m->by_code;
    ends_parse(&all, m->ends);
    ends_filter(&all, -SIGTERM, true, &part);
    ends_merge(run->ends_list, m->base_rank, n->name, &part);
    ends_filter(&all, -SIGTERM, false, &part);
    ends_merge(run->stopped_list, m->base_rank, n->name, &part);
}

static void on_ready(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_ready *m)
{
    int64_t round = m->round;
    if (round == run->round && m->progress)
        run->progressed = true;
    switch (n->state) {
    case NODE_STALE:
        if (round != n->stale_round) { /* of an earlier one, under way */
            note(r, NOTE_stale, run, n->name, "ready of round %lld",
                 (long long)round);
            return;
        }
        node_cut_lease(r, n, run->heartbeat_us);
        join_place(r, run, n);
        return;
    case NODE_STOPPING:
        if (!is_current(r, run, n, round, "ready"))
            return;
        take_ends(run, n, m);
        become_waiting(r, run, n);
        round_try_drained(r, run);
        return;
    case NODE_RUNNING: {
        /* Its lease was over and it killed its workers, or it was told of a
         * round's end by a server that is no more. */
        if (!is_current(r, run, n, round, "ready"))
            return;
        take_ends(run, n, m);
        become_waiting(r, run, n);
        run->lost_since = true;
        char why[128];
        (void)snprintf(why, sizeof(why), "node %s stopped its workers",
                       n->name);
        round_over(r, run, why, MSG_AT_ONCE);
        return;
    }
    case NODE_LEAVING:
        /* One of an earlier round, under way when it was told to go, does not
         * mean that no worker is left. Its FIN comes in any case. */
        if (is_current(r, run, n, round, "ready"))
            node_gone(r, n, "left");
        return;
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_ASIDE:
    case NODE_DONE:
    case NODE_DRAINED:
    case NODE_ENDING:
        return; /* said twice, after a reconnect */
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

static void
on_done(struct rdzv *r, struct run *run, struct node *n, int64_t round)
{
    if (!is_current(r, run, n, round, "done") || n->state != NODE_RUNNING)
        return;
    node_set_state(r, n, NODE_DONE);
    note(r, NOTE_done, run, n->name, "%d of %d",
         run->count[NODE_DONE] + run->gone_done, run->group_world);
    round_try_done(r, run);
}

static void on_leave_all(struct rdzv *r,
                         struct run *run,
                         const struct node *n,
                         const struct msg_leave *l)
{
    struct msg_end end = {
        .status = 128 + l->signal,
        .round = run->round,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    const char *name = sigabbrev_np((int)l->signal);
    (void)snprintf(end.text, /* fits */
                   sizeof(end.text), "ended by signal %lld (SIG%s) on node %s",
                   (long long)l->signal, name != NULL ? name : "?", n->name);
    run_end(r, run, &end);
}

static void on_leave(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_leave *l)
{
    if (run->state == RUN_ENDED)
        return;
    if (l->all) {
        on_leave_all(r, run, n, l);
        return;
    }
    if (n->state == NODE_LEAVING)
        return; /* said twice, after a reconnect */
    if (!node_in_round(n) || n->state == NODE_DONE) {
        node_gone(r, n, "leaves"); /* what it did stays done */
        return;
    }
    char why[128];
    (void)snprintf(why, sizeof(why), "node %s leaves", n->name);
    if (l->signal != 0)
        note(r, NOTE_left, run, n->name, "signal %lld", (long long)l->signal);
    else /* by the order of a server that is no more */
        note(r, NOTE_left, run, n->name, "%s", "drained");
    node_set_state(r, n, NODE_LEAVING);
    run->lost_since = true; /* whatever fails from now on is a consequence */
    round_over(r, run, why, MSG_SCALE_DOWN);
    round_try_drained(r, run);
}

static void on_bye(struct rdzv *r, struct run *run, struct node *n)
{
    if (!n->owes_bye) {
        node_gone(r, n, "said bye");
        return;
    }
    node_clear_bye(r, n);
    round_try_settle(r, run);
}

static void on_msg(struct rdzv *r, const struct rdzv_event *ev)
{
    struct node *n = node_at(r, r->conn_node[ev->conn]);
    const struct msg *m = ev->msg;
    bool opens = m->kind == MSG_KIND_join || msg_sender(m->kind) == MSG_CTL;
    if (opens != (n == NULL) || msg_sender(m->kind) == MSG_SERVER) {
        /* A join or an order on a connection that has joined, anything else on
         * one that has not, or what only a server says. */
        struct run *run = n != NULL ? &r->runs[n->run] : NULL;
        note(r, NOTE_refused, run, n != NULL ? n->name : "",
             "'%s' out of order; connection closed", msg_name(m->kind));
        if (n != NULL)
            node_unbind(r, n);
        reply_drop(r, ev->conn);
        return;
    }
    struct run *run = n != NULL ? &r->runs[n->run] : NULL;
    switch (m->kind) {
    case MSG_KIND_join:
        join_step(r, ev);
        return;
    case MSG_KIND_beat:
        node_confirm(r, n, m->beat.round);
        node_grant(r, n, m->beat.seq, m->beat.heard);
        return;
    case MSG_KIND_failed:
        on_failed(r, run, n, &m->failed);
        return;
    case MSG_KIND_ready:
        on_ready(r, run, n, &m->ready);
        return;
    case MSG_KIND_done:
        on_done(r, run, n, m->done.round);
        return;
    case MSG_KIND_leave:
        on_leave(r, run, n, &m->leave);
        return;
    case MSG_KIND_bye:
        on_bye(r, run, n);
        return;
    case MSG_KIND_order_drain:
    case MSG_KIND_order_end:
        order_step(r, ev);
        return;
    case MSG_KIND_answered:
    case MSG_KIND_refused:
    case MSG_KIND_waiting:
    case MSG_KIND_lease:
    case MSG_KIND_world:
    case MSG_KIND_members:
    case MSG_KIND_stop:
    case MSG_KIND_drain:
    case MSG_KIND_end:
    case MSG_KIND_COUNT:
        break;
    }
    DDP_WRONG("message kind");
}

/* -- time ----------------------------------------------------------------- */

/* Nobody pays for the time in which the server itself was held up. */
static void extend_leases(struct rdzv *r, int64_t lag_us)
{
    for (int i = 0; i < r->fresh_node; i++)
        if (r->nodes[i].used)
            r->nodes[i].lease_until_us =
                mono_after(r->nodes[i].lease_until_us, lag_us);
    r->lease_check_us = mono_after(r->lease_check_us, lag_us);
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].used)
            r->runs[i].rebuilt_at_us =
                mono_after(r->runs[i].rebuilt_at_us, lag_us);
}

static void on_tick(struct rdzv *r, int64_t lag_us)
{
    if (lag_us > 0)
        extend_leases(r, lag_us);
    expire_leases(r);
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (!run->used)
            continue;
        r->account = run_source(r, run);
        if (run->state == RUN_ENDED && r->now_us >= run->forget_at_us)
            run_forget(r, run);
        else
            round_tick(r, run);
    }
}

/* Whose doing an event is. */
static const char *account_of(const struct rdzv *r, const struct rdzv_event *ev)
{
    if (ev->kind == RDZV_TICK)
        return "";
    ddp_assert(ev->conn >= 0 && ev->conn < r->limits.conns_max);
    const struct node *n = node_at(r, r->conn_node[ev->conn]);
    if (n != NULL)
        return node_source(r, n);
    return ev->peer_addr != NULL ? ev->peer_addr : "";
}

void rdzv_step(struct rdzv *r,
               const struct rdzv_event *ev,
               const struct rdzv_actions *out)
{
    r->now_us = ev->now_us;
    r->out = out;
    r->account = account_of(r, ev);
    switch (ev->kind) {
    case RDZV_MSG:
        on_msg(r, ev);
        return;
    case RDZV_CLOSED:
        on_closed(r, ev);
        return;
    case RDZV_TICK:
        on_tick(r, ev->lag_us);
        return;
    }
    DDP_WRONG("event kind");
}

int64_t rdzv_deadline(const struct rdzv *r)
{
    int64_t at_us = r->lease_check_us;
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].used)
            at_us = mono_min(at_us, round_deadline(r, &r->runs[i]));
    return at_us;
}

int rdzv_nodes(const struct rdzv *r)
{
    return r->n_nodes;
}

int rdzv_live_runs(const struct rdzv *r)
{
    int n = 0;
    for (int i = 0; i < r->limits.runs_max; i++)
        n += r->runs[i].used && r->runs[i].state != RUN_ENDED &&
             r->runs[i].head >= 0;
    return n;
}

/* -- what must always hold ------------------------------------------------ */

static void check_run(const struct rdzv *r, const struct run *run)
{
    int count[NODE_STATES] = {0};
    int absent = 0;
    int members = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        ddp_assert(n->used && n->run == run_index(r, run));
        ddp_assert(n->conn < 0 || r->conn_node[n->conn] == i);
        count[n->state]++;
        absent += n->conn < 0;
        members += node_in_round(n);
        if (n->state == NODE_RUNNING || n->state == NODE_DONE) {
            ddp_assert(run->state == RUN_ACTIVE);
            ddp_assert(n->group_rank >= 0 && n->group_rank < run->group_world);
        }
        if (n->state == NODE_STOPPING || n->state == NODE_LEAVING)
            ddp_assert(run->state == RUN_DRAIN);
        if (n->state == NODE_WAITING)
            ddp_assert(run->state == RUN_DRAIN || run->state == RUN_GATHER);
        if (n->state == NODE_DRAINED || n->state == NODE_WAITING ||
            n->state == NODE_SPARE || n->state == NODE_ASIDE)
            ddp_assert(n->drained == (n->state == NODE_DRAINED));
        if (n->state == NODE_ASIDE)
            ddp_assert(run->strikes.max > 0 &&
                       run->strikes.check_us <= n->aside_until_us);
        ddp_assert((n->state == NODE_ENDING) == (run->state == RUN_ENDED));
    }
    for (int s = 0; s < NODE_STATES; s++)
        ddp_assert(count[s] == run->count[s]);
    ddp_assert(absent == run->absent);
    ddp_assert(run->holes >= 0);
    ddp_assert(run->budget.window_us > 0 ||
               run->budget.used <= run->budget.max);
    if (run->state == RUN_ACTIVE) {
        ddp_assert(members + run->gone_done + run->holes == run->group_world);
        ddp_assert(run->group_world <= run->nodes_max);
    }
}

void rdzv_check(const struct rdzv *r)
{
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].used)
            check_run(r, &r->runs[i]);
}
