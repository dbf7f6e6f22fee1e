/*
 * Happy path: `voters` tells the addresses, `go` (or, to a node without a vote,
 * `world`) that the round has begun: each address is connected to at once, and
 * the connections are closed by a reset. The others' launchers do not see them
 * (own_server.c: a connection on which nothing comes does not wake a server).
 *
 * Failure modes:
 *  - An address refuses, or does not answer within ANSWER_MS: that is told, but
 *    not twice in a row.
 *  - Another round begins meanwhile: the tries go on, that round is not tried.
 *  - An address is no number, or this node's own: it is not tried.
 */
#include "launcher/rdzv/reach.h"

#include <stdio.h>
#include <string.h>

#include "launcher/rdzv/endpoint.h"
#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/err.h"
#include "rendezvous/net/addr.h"

#define ANSWER_MS 3000 /* a lost segment comes again after one second */
#define NAMED_MAX 4
#define WHO_MAX   400

/* -- telling --------------------------------------------------------------- */

/* What does not fit is left out. */
static void append(char text[WHO_MAX], const char *more)
{
    size_t used = strlen(text), len = strlen(more);
    if (used + len < WHO_MAX)
        memcpy(text + used, more, len + 1);
}

/* "10.0.0.2:4012 (no answer), ... and 3 more". Returns how many there are. */
static int describe(const struct reach *r, char text[WHO_MAX])
{
    char one[sizeof(r->tries[0].addr) + 80];
    int n = 0;
    text[0] = '\0';
    for (int i = 0; i < r->n; i++) {
        const struct reach_try *t = &r->tries[i];
        if (t->reached || n++ >= NAMED_MAX)
            continue;
        (void)snprintf(one, sizeof(one), /* fits */
                       "%s%s (%.60s)", n > 1 ? ", " : "", t->addr,
                       t->error == 0 ? "no answer" : uv_strerror(t->error));
        append(text, one);
    }
    (void)snprintf(one, sizeof(one), /* fits */ " and %d more", n - NAMED_MAX);
    if (n > NAMED_MAX)
        append(text, one);
    return n;
}

static void judge(struct reach *r)
{
    char who[WHO_MAX], text[REACH_TEXT_MAX];
    int n = describe(r, who);
    text[0] = '\0';
    if (n > 0)
        (void)snprintf(text, sizeof(text), /* fits */
                       "this node does not reach %s, where the run can be "
                       "served if the host that serves it is lost; have the "
                       "firewalls between the nodes let that through, or this "
                       "node may be left out then",
                       who);
    if (n > 0 && strcmp(text, r->told) != 0)
        r->tell(r->ctx, text);
    msg_set(r->told, text);
}

/* -- trying ---------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
    struct reach_try *t = h->data;
    t->used = false;
    t->reach->open--;
}

static void end(struct reach_try *t)
{
    if (t->used && !uv_is_closing((uv_handle_t *)&t->tcp) &&
        (!t->reached || uv_tcp_close_reset(&t->tcp, on_closed) != 0))
        uv_close((uv_handle_t *)&t->tcp, on_closed);
}

static bool is_under_way(const struct reach_try *t)
{
    return !t->reached && t->error == 0;
}

static void finish(struct reach *r)
{
    (void)uv_timer_stop(&r->timer);
    for (int i = 0; i < r->n; i++)
        end(&r->tries[i]);
    judge(r);
}

static void on_timer(uv_timer_t *timer)
{
    finish(timer->data);
}

static void on_connect(uv_connect_t *req, int status)
{
    struct reach_try *t = req->data;
    struct reach *r = t->reach;
    if (uv_is_closing((uv_handle_t *)&t->tcp))
        return; /* it was too late */
    t->reached = status == 0;
    t->error = status;
    end(t);
    for (int i = 0; i < r->n; i++)
        if (is_under_way(&r->tries[i]))
            return;
    finish(r);
}

static void begin(struct reach *r, struct reach_try *t)
{
    struct conf_endpoint at;
    struct addr_list list = {.n = 0};
    if (!endpoint_read(t->addr, strlen(t->addr), &at) ||
        !resolver_is_needless(at.host, at.port, &list) || list.n == 0)
        return;
    const struct sockaddr *sa = (const struct sockaddr *)&list.at[0];
    if (own_server_is_at(r->own, sa) || uv_tcp_init(r->loop, &t->tcp) != 0)
        return;
    t->used = true;
    t->tcp.data = t->req.data = t;
    t->reached = false;
    r->open++;
    int rc = uv_tcp_connect(&t->req, &t->tcp, sa, on_connect);
    if (rc == 0)
        return;
    t->error = rc;
    end(t);
}

static void try_all(struct reach *r)
{
    int under_way = 0;
    r->n = 0;
    for (const char *at = r->voters.addrs; *at != '\0' && r->n < MSG_VOTERS_MAX;
         at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        struct reach_try *t = &r->tries[r->n];
        *t = (struct reach_try){.reach = r, .reached = true};
        if (len < sizeof(t->addr) && len > 1) { /* else "-": it is no place */
            memcpy(t->addr, at, len);
            begin(r, t);
            under_way += is_under_way(t);
            r->n++;
        }
        at += len;
    }
    if (under_way == 0)
        judge(r);
    else
        (void)uv_timer_start(&r->timer, on_timer, ANSWER_MS, 0);
}

void reach_init(struct reach *r,
                uv_loop_t *loop,
                const struct own_server *own,
                reach_tell *tell,
                void *ctx)
{
    *r = (struct reach){.loop = loop, .own = own, .tell = tell, .ctx = ctx};
    (void)uv_timer_init(loop, &r->timer); /* cannot fail */
    r->timer.data = r;
}

void reach_hear(struct reach *r, const struct msg *m)
{
    int64_t round = 0;
    if (m->kind == MSG_KIND_voters)
        r->voters = m->voters;
    else if (m->kind == MSG_KIND_go)
        round = m->go.round;
    else if (m->kind == MSG_KIND_world && !m->world.pending)
        round = m->world.round;
    if (round == 0 || round == r->round || round != r->voters.round ||
        r->open > 0)
        return;
    r->round = round;
    try_all(r);
}
