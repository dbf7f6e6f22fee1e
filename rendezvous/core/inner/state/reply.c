#include "rendezvous/core/inner/state/reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"

#define DETECT_MS_MAX 86400000 /* messages.def: stop */

static void emit(const struct rdzv *r, const struct rdzv_action *a)
{
    ddp_assert(r->out != NULL); /* only a step hands out actions */
    r->out->emit(r->out->ctx, a);
}

void reply_send(struct rdzv *r, int conn, const struct msg *m)
{
    ddp_assert(conn >= 0 && conn < r->limits.conns_max);
    ddp_assert(msg_is_from(m->kind, MSG_SERVER));
    emit(r, &(struct rdzv_action){.kind = RDZV_SEND, .conn = conn, .msg = m});
}

void reply_drop(struct rdzv *r, int conn)
{
    ddp_assert(conn >= 0 && conn < r->limits.conns_max);
    r->conn_node[conn] = -1;
    emit(r, &(struct rdzv_action){.kind = RDZV_DROP, .conn = conn});
}

void reply_node(struct rdzv *r, const struct node *n, const struct msg *m)
{
    ddp_assert(n->state != NODE_FREE);
    if (n->conn >= 0)
        reply_send(r, n->conn, m);
}

/* Whether the others most likely wait in a collective for the worker that was
 * the first to fail in this round. */
static bool ended_by_death(const struct run *run, int64_t round)
{
    const struct failure *root = &run->report.root;
    return root->round == round &&
           (root->what.signal != 0 || root->what.how == MSG_FAILED_HUNG);
}

void reply_stop(struct rdzv *r,
                const struct node *n,
                int64_t round,
                const char *why,
                enum msg_graceful graceful,
                int64_t detect_us)
{
    struct msg m = {.kind = MSG_KIND_stop};
    m.stop.round = round;
    m.stop.graceful =
        graceful == MSG_AT_ONCE && ended_by_death(&r->runs[n->run], round)
            ? MSG_AFTER_DEATH
            : graceful;
    m.stop.detect_ms = mono_min(detect_us / MONO_MS, DETECT_MS_MAX);
    msg_set(m.stop.text, why);
    reply_node(r, n, &m);
}

void reply_drain(struct rdzv *r, const struct node *n)
{
    struct msg m = {.kind = MSG_KIND_stop, .stop.drain = 1};
    if (n->drained_by[0] == '\0')
        msg_set(m.stop.text, "drained by its own check (--drain_check)");
    else
        (void)snprintf(m.stop.text, /* fits */
                       sizeof(m.stop.text), "drained by ddpctl from %s",
                       n->drained_by);
    reply_node(r, n, &m);
}

void reply_prepare(struct rdzv *r, const struct run *run, int conn)
{
    struct msg m = {.kind = MSG_KIND_prepare};
    m.prepare.term = run->authority.term;
    msg_set_name(m.prepare.instance, run->state == RUN_ELECTING
                                         ? run->takeover.instance
                                         : run->instance);
    msg_set(m.prepare.without, run->takeover.without);
    reply_send(r, conn, &m);
}

void note_about(struct rdzv *r, const struct run *run, struct note *n)
{
    r->noted[n->kind]++;
    if (run != NULL)
        n->run = run->id;
    else if (n->run == NULL)
        n->run = ""; /* none, and not one that is served elsewhere */
    n->run_at = run != NULL ? run_index(r, run) : -1;
    n->round = run != NULL ? run->round.number : 0;
    n->at_us = r->now_us;
    emit(r, &(struct rdzv_action){.kind = RDZV_NOTE, .conn = -1, .note = n});
}

void note(struct rdzv *r,
          enum note_kind kind,
          const struct run *run,
          const char *node,
          const char *fmt,
          ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* may be cut */
    va_end(ap);
    note_about(r, run,
               &(struct note){.kind = kind, .node = node, .text = text});
}
