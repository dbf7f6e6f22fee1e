/*
 * Happy path: joins come in, round_try_seal seals, each node gets its world;
 * done from all of them ends the run. Everything else is a way back to that:
 * a failure, a loss, a departure or a newcomer ends the round (round_over);
 * when no worker of it can be alive any more the next one is gathered.
 */
#include "rendezvous/core/rdzv.h"

#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/join/election.h"
#include "rendezvous/core/inner/round/command.h"
#include "rendezvous/core/inner/join/farewell.h"
#include "rendezvous/core/inner/join/join.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/join/member.h"
#include "rendezvous/core/inner/join/moved.h"
#include "rendezvous/core/inner/round/handover.h"
#include "rendezvous/core/inner/round/node_gone.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/join/round_tick.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/states.h"
#include "rendezvous/core/inner/join/takeover.h"

static void no_memory(void)
{
    DDP_WRONG("out of memory while the rendezvous starts");
}

static void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        no_memory();
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
    r->statements = xcalloc(nodes_max, sizeof(r->statements[0]));
    r->places = xcalloc(nodes_max, sizeof(r->places[0]));
    r->scratch = xcalloc(nodes_max, sizeof(r->scratch[0]));
    r->told = xcalloc(nodes_max, sizeof(r->told[0]));
    r->taken = xcalloc((size_t)limits->runs_max, nodes_max / 8 + 1);
    r->conn_node = xcalloc((size_t)limits->conns_max, sizeof(int));
    r->n_buckets = 16;
    while (r->n_buckets < nodes_max)
        r->n_buckets *= 2;
    r->buckets = xcalloc(r->n_buckets, sizeof(int));
    r->boots = xcalloc(nodes_max, sizeof(r->boots[0]));
    r->due = due_new(limits->runs_max);
    r->moved = moved_new();
    r->farewells = farewell_new();
    if (r->due == NULL || r->moved == NULL || r->farewells == NULL)
        no_memory();
    node_init(r);
    r->lease_check_us = MONO_NEVER;
    handover_closed(r);
    rng_init(&r->rng, seed);
    return r;
}

void rdzv_del(struct rdzv *r)
{
    if (r == NULL)
        return;
    free(r->runs);
    free(r->nodes);
    free(r->statements);
    free(r->places);
    free(r->scratch);
    free(r->told);
    free(r->taken);
    free(r->conn_node);
    free(r->buckets);
    free(r->boots);
    due_del(r->due);
    moved_del(r->moved);
    farewell_del(r->farewells);
    free(r);
}

/* -- what comes ------------------------------------------------------------ */

static void on_closed(struct rdzv *r, const struct rdzv_event *ev)
{
    struct node *n = node_at(r, r->conn_node[ev->conn]);
    if (handover_is_at(r, ev->conn)) {
        handover_closed(r);
        return;
    }
    if (shows_closed(r, ev->conn))
        return;
    if (n == NULL)
        moved_closed(r, ev->conn);
    else
        node_broke_off(r, n);
}

static bool is_bye(const struct msg *m)
{
    return m->kind == MSG_KIND_leave && m->leave.what == MSG_LEAVE_ENDED;
}

static bool is_farewell(const struct msg *m)
{
    return m->kind == MSG_KIND_vote && m->vote.last;
}

/* A join or an order on a connection that has joined, anything else on one that
 * has not, a bye to what goes on, or what only a server says. */
static bool is_out_of_order(const struct run *run, const struct msg *m)
{
    bool opens = m->kind == MSG_KIND_join || is_farewell(m) ||
                 msg_is_from(m->kind, MSG_CTL);
    if (m->kind == MSG_KIND_serves) /* also passed on by a node */
        return m->serves.version != MSG_VERSION ||
               (m->serves.addr[0] != '\0' && m->serves.term.count == 0);
    if (m->kind == MSG_KIND_answered)
        return run == NULL || m->answered.number == 0;
    return opens != (run == NULL) ||
           (!opens && !msg_is_from(m->kind, MSG_AGENT)) ||
           (is_bye(m) && run->state != RUN_ENDED);
}

static void on_beat(struct rdzv *r, struct node *n, const struct msg_beat *b)
{
    node_confirm(r, n, b->round);
    steps_beat(r, &r->runs[n->run], n, b);
    stands_beat(r, &r->runs[n->run], n, b);
    node_grant(r, n, b->seq, b->heard);
    election_beat(&r->runs[n->run], n);
}

/* It counts once this server is the leader. */
static bool is_of_joining(const struct node *n, enum msg_kind kind)
{
    return n != NULL && n->state == NODE_JOINING &&
           (kind == MSG_KIND_failed || kind == MSG_KIND_ready ||
            kind == MSG_KIND_leave);
}

static void
on_vote(struct rdzv *r, struct run *run, struct node *n, const struct msg *m)
{
    if (run->state == RUN_ENDED)
        return;
    if (m->kind == MSG_KIND_vote && !election_voted(r, run, n, &m->vote))
        election_forget(r, run, n->name);
    else if (m->kind == MSG_KIND_promise)
        election_promise(r, run, n, &m->promise);
    else if (m->kind == MSG_KIND_accept)
        propose_accepted(r, run, n, &m->accept);
}

static void on_msg(struct rdzv *r, const struct rdzv_event *ev)
{
    struct node *n = node_at(r, r->conn_node[ev->conn]);
    struct run *run = n != NULL ? &r->runs[n->run] : NULL;
    const struct msg *m = ev->msg;
    if (handover_is_at(r, ev->conn))
        return;
    if (shows_closed(r, ev->conn) || is_out_of_order(run, m)) {
        note(r, NOTE_refused, run, n != NULL ? n->name : "",
             "'%s' out of order; connection closed", msg_name(m->kind));
        if (n != NULL)
            node_broke_off(r, n);
        reply_drop(r, ev->conn);
        return;
    }
    if (is_of_joining(n, m->kind)) {
        election_note(r, run, n, m);
        return;
    }
    switch (m->kind) {
    case MSG_KIND_join:
        join_step(r, ev);
        return;
    case MSG_KIND_beat:
        on_beat(r, n, &m->beat);
        return;
    case MSG_KIND_failed:
        member_failed(r, run, n, &m->failed);
        return;
    case MSG_KIND_ready:
        if (m->ready.done)
            member_done(r, run, n, m->ready.round);
        else
            member_ready(r, run, n, &m->ready);
        return;
    case MSG_KIND_leave:
        if (is_bye(m))
            member_bye(r, run, n);
        else
            member_leave(r, run, n, &m->leave);
        return;
    case MSG_KIND_vote:
        if (m->vote.last)
            farewell_hear(r, ev);
        else
            on_vote(r, run, n, m);
        return;
    case MSG_KIND_promise:
    case MSG_KIND_accept:
        on_vote(r, run, n, m);
        return;
    case MSG_KIND_serves:
        moved_heard(r, ev);
        return;
    case MSG_KIND_order:
        command_step(r, ev);
        return;
    case MSG_KIND_answered:
        shows_answered(r, n, &m->answered);
        return;
    case MSG_KIND_refused:
    case MSG_KIND_waiting:
    case MSG_KIND_lease:
    case MSG_KIND_world:
    case MSG_KIND_members:
    case MSG_KIND_prepare:
    case MSG_KIND_voters:
    case MSG_KIND_go:
    case MSG_KIND_stop:
    case MSG_KIND_look:
    case MSG_KIND_end:
    case MSG_KIND_COUNT:
        break;
    }
    DDP_WRONG("message kind");
}

/* -- time ------------------------------------------------------------------ */

static void expire_lease(struct rdzv *r, struct node *n)
{
    struct run *run = &r->runs[n->run];
    bool hosts = n->hosts;
    node_expired(r, n);
    if (hosts && run->state != RUN_FREE)
        run->host_is_silent = true;
}

static void expire_leases(struct rdzv *r)
{
    if (r->now_us < r->lease_check_us)
        return;
    for (int i = 0; i < r->fresh_node; i++) {
        struct node *n = &r->nodes[i];
        if (n->state != NODE_FREE && n->lease_until_us <= r->now_us)
            expire_lease(r, n);
    }
    /* Only now, since a loss may have changed other nodes. */
    r->lease_check_us = MONO_NEVER;
    for (int i = 0; i < r->fresh_node; i++)
        if (r->nodes[i].state != NODE_FREE)
            r->lease_check_us =
                mono_min(r->lease_check_us, r->nodes[i].lease_until_us);
}

/* Nobody pays for the time in which the server itself was held up; a beat that
 * was read since then has begun a whole lease, and nobody gets more. */
static void extend_lease(const struct rdzv *r, struct node *n, int64_t lag_us)
{
    int64_t whole_us = mono_after(r->now_us, r->runs[n->run].conf.heartbeat_us);
    int64_t until_us =
        mono_min(mono_after(n->lease_until_us, lag_us), whole_us);
    if (until_us > n->lease_until_us)
        n->lease_until_us = until_us;
}

static void extend_leases(struct rdzv *r, int64_t lag_us)
{
    for (int i = 0; i < r->fresh_node; i++)
        if (r->nodes[i].state != NODE_FREE)
            extend_lease(r, &r->nodes[i], lag_us);
}

static void on_tick(struct rdzv *r, int64_t lag_us)
{
    if (lag_us > 0)
        extend_leases(r, lag_us);
    expire_leases(r);
    for (int i = 0; i < r->limits.runs_max; i++) {
        struct run *run = &r->runs[i];
        if (run->state == RUN_FREE)
            continue;
        rdzv_touch(r, run);
        if (run->state == RUN_ENDED && r->now_us >= run->end.forget_at_us)
            run_forget(r, run);
        else
            round_tick(r, run);
    }
}

/* -- the step -------------------------------------------------------------- */

/* The run of the node at a connection. A message that changes nothing of a node
 * may still change its run. */
static void touch_run_at(struct rdzv *r, int conn)
{
    const struct node *n = node_at(r, r->conn_node[conn]);
    if (n != NULL)
        due_touch(r->due, n->run);
}

static int64_t deadline_of(const struct rdzv *r, const struct run *run)
{
    return run->state == RUN_FREE ? MONO_NEVER : round_deadline(r, run);
}

static void renew_deadlines(struct rdzv *r)
{
    int i;
    while ((i = due_take_touched(r->due)) >= 0) {
        /* These may touch it again. More follows for one that leads now
         * from a farewell. */
        farewell_tell(r, &r->runs[i]);
        takeover_look(r, &r->runs[i]);
        farewell_tell(r, &r->runs[i]);
        handover_look(r, &r->runs[i]);
        phase_look(r, &r->runs[i]);
        due_set(r->due, i, deadline_of(r, &r->runs[i]));
    }
}

/* Of more nodes than this not all are checked after each step: that would take
 * a time that grows with their square. */
#define CHECK_ALL_MAX 256

/* What holds between two steps: all of it in debug builds, else the state of
 * the node that the event was about, if it is still there. */
static void check_after(const struct rdzv *r, const struct rdzv_event *ev)
{
#ifdef DDP_DEBUG
    if (r->n_nodes <= CHECK_ALL_MAX)
        rdzv_check(r);
#endif
    const struct node *n =
        ev->kind == RDZV_MSG ? node_at(r, r->conn_node[ev->conn]) : NULL;
    if (n != NULL)
        states_check_node(r, n);
}

static void take_event(struct rdzv *r, const struct rdzv_event *ev)
{
    switch (ev->kind) {
    case RDZV_MSG:
        touch_run_at(r, ev->conn); /* a bye leaves none */
        on_msg(r, ev);
        touch_run_at(r, ev->conn); /* a join had none */
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

void rdzv_step(struct rdzv *r,
               const struct rdzv_event *ev,
               const struct rdzv_actions *out)
{
    ddp_assert(r->out == NULL); /* emit must not call back */
    r->now_us = ev->now_us;
    r->out = out;
    take_event(r, ev);
    renew_deadlines(r);
    check_after(r, ev);
    r->out = NULL;
}

int64_t rdzv_deadline(const struct rdzv *r)
{
    return mono_min(r->lease_check_us, due_first(r->due));
}

int rdzv_nodes(const struct rdzv *r)
{
    return r->n_nodes;
}

int rdzv_live_runs(const struct rdzv *r)
{
    int n = 0;
    for (int i = 0; i < r->limits.runs_max; i++)
        n += r->runs[i].state != RUN_FREE && r->runs[i].state != RUN_ENDED &&
             (r->runs[i].head >= 0 || r->runs[i].host_is_silent);
    return n;
}

int rdzv_ended_runs(const struct rdzv *r)
{
    int n = 0;
    for (int i = 0; i < r->limits.runs_max; i++)
        n += r->runs[i].state == RUN_ENDED;
    return n;
}

/* -- what must always hold ------------------------------------------------- */

void rdzv_check(const struct rdzv *r)
{
    states_check_tables(r);
    for (int i = 0; i < r->limits.runs_max; i++) {
        if (r->runs[i].state != RUN_FREE)
            states_check_run(r, &r->runs[i]);
        /* What is due already is renewed by the tick. */
        ddp_assert(due_at(r->due, i) <= r->now_us ||
                   due_at(r->due, i) == deadline_of(r, &r->runs[i]));
    }
}
