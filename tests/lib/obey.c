#include "tests/lib/obey.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/err.h"

#define ASKED_MAX 256

struct asked {
    const struct rdzv_actions *out; /* the test's */
    int n;
    struct {
        int conn; /* -1: it is closed */
        struct msg answer;
    } all[ASKED_MAX];
};

static void keep(struct asked *q, int conn, const struct msg *answer)
{
    ddp_assert(q->n < ASKED_MAX);
    q->all[q->n].conn = conn;
    q->all[q->n++].answer = *answer;
}

static void on_prepare(struct asked *q, int conn, const struct msg_prepare *o)
{
    struct msg m = {.kind = MSG_KIND_promise, .promise.term = o->term};
    keep(q, conn, &m);
}

static void on_voters(struct asked *q, int conn, const struct msg_voters *v)
{
    struct msg m = {.kind = MSG_KIND_accept,
                    .accept = {.round = v->round, .term = v->term}};
    if (v->pending && v->ids[0] != '\0') /* it is one of them */
        keep(q, conn, &m);
}

static void forget(struct asked *q, int conn)
{
    for (int i = 0; i < q->n; i++)
        if (q->all[i].conn == conn)
            q->all[i].conn = -1;
}

static void emit(void *ctx, const struct rdzv_action *a)
{
    struct asked *q = ctx;
    q->out->emit(q->out->ctx, a);
    if (a->kind == RDZV_DROP)
        forget(q, a->conn);
    else if (a->kind == RDZV_SEND && a->msg->kind == MSG_KIND_prepare)
        on_prepare(q, a->conn, &a->msg->prepare);
    else if (a->kind == RDZV_SEND && a->msg->kind == MSG_KIND_voters)
        on_voters(q, a->conn, &a->msg->voters);
}

void obey_step(struct rdzv *r,
               const struct rdzv_event *ev,
               const struct rdzv_actions *out)
{
    static struct asked q; /* large */
    struct rdzv_actions all = {.emit = emit, .ctx = &q};
    q.out = out;
    q.n = 0;
    rdzv_step(r, ev, &all);
    for (int i = 0; i < q.n; i++) {
        struct rdzv_event answer = {.kind = RDZV_MSG,
                                    .now_us = ev->now_us,
                                    .conn = q.all[i].conn,
                                    .msg = &q.all[i].answer,
                                    .peer_addr = "10.0.0.1",
                                    .here_addr = "10.0.0.9"};
        if (answer.conn >= 0)
            rdzv_step(r, &answer, &all);
    }
}

void obey_voted(struct msg_join *j,
                const char *row,
                int group_world,
                struct msg *voted)
{
    static const char server[] = "00000000000000bb";
    struct msg_vote *v = &voted->vote;
    *voted = (struct msg){.kind = MSG_KIND_vote};
    j->term = v->round_term = term_make(1, server);
    msg_set(v->instance, j->instance);
    v->round = j->round;
    v->group_rank = j->group_rank;
    v->group_world = group_world;
    v->restarts = j->restarts;
    j->answered_ms = -1;
    for (size_t len = 0; *row != '\0'; row++, len += 17)
        (void)snprintf(v->voters + len, sizeof(v->voters) - len, "%016d ",
                       *row - '0');
}
