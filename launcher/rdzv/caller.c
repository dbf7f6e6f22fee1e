/*
 * Happy path: caller_start resolves the name, on_resolved or the next turn of
 * the timer dials, on_up says the message, and each turn says it again if it
 * repeats; each time the owner is asked to complete it. With caller_ask the
 * owner's calls are the turns.
 *
 * Failure modes:
 *  - The name does not resolve, nobody listens, the connection breaks: the next
 *    turn begins again, with the next address of the name.
 *  - No answer to the dial: given up after CALLER_DIAL_MS. A new dial comes
 *    through as soon as the cable is back, what TCP sends again seconds later.
 *  - The resolver hangs: nothing is done until it comes back.
 */
#include "launcher/rdzv/caller.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/conn.h"

#define CALLER_MAGIC 0x63616c6cu

static struct caller *caller_of(void *data)
{
    struct caller *c = data;
    ddp_assert(c != NULL && c->magic == CALLER_MAGIC);
    ddp_assert(c->conn != NULL || !c->up);
    return c;
}

static void hang_up(struct caller *c)
{
    if (c->conn != NULL)
        conn_finish(c->conn);
    c->conn = NULL;
    c->up = false;
}

/* -- the connection -------------------------------------------------------- */

static void say(struct caller *c)
{
    if (c->owner->complete != NULL)
        c->owner->complete(c->ctx, &c->say);
    conn_send(c->conn, &c->say);
}

static void on_up(void *ctx, struct conn *conn)
{
    struct caller *c = caller_of(ctx);
    ddp_assert(c->conn == conn);
    c->up = true;
    say(c);
}

static void on_msg(void *ctx, struct conn *conn, const struct msg *m)
{
    struct caller *c = caller_of(ctx);
    ddp_assert(c->conn == conn);
    if (c->owner->hear != NULL)
        c->owner->hear(c->ctx, &c->at, m);
}

static void on_closed(void *ctx, struct conn *conn, const char *why)
{
    (void)why;
    struct caller *c = caller_of(ctx);
    ddp_assert(c->conn == conn);
    c->conn = NULL;
    c->up = false;
    if (c->owner->fails != NULL)
        c->owner->fails(c->ctx);
}

static const struct conn_handler handler = {
    .on_up = on_up,
    .on_msg = on_msg,
    .on_closed = on_closed,
};

static void dial(struct caller *c)
{
    struct ddp_err err;
    if (c->addrs.n == 0)
        return;
    struct sockaddr_storage *to =
        &c->addrs.at[(unsigned)c->next_addr++ % (unsigned)c->addrs.n];
    const struct sockaddr *sa = (const struct sockaddr *)to;
    bool asks_own = c->owner->wakes_own ||
                    (c->owner->calls_own && own_server_pid(c->own) > 0);
    if (own_server_is_at(c->own, sa) && !asks_own)
        return;
    c->dialled_us = mono_now_us();
    c->conn = conn_dial(c->loop, sa, &handler, c, &err);
    if (c->conn != NULL)
        conn_secure(c->conn, c->key);
}

/* -- the name -------------------------------------------------------------- */

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err)
{
    (void)err;
    struct caller *c = caller_of(ctx);
    if (list == NULL || strcmp(c->resolver.host, c->at.host) != 0)
        return;
    c->addrs = *list;
    if (c->on && c->conn == NULL)
        dial(c);
}

/* Asks again each time: the host may come back with another address. */
static void find(struct caller *c)
{
    struct ddp_err err;
    if (resolver_is_busy(&c->resolver))
        return;
    if (resolver_is_needless(c->at.host, c->at.port, &c->addrs))
        dial(c);
    else
        (void)resolver_start(&c->resolver, c->at.host, c->at.port, &err);
}

/* -- time ------------------------------------------------------------------ */

static void take_turn(struct caller *c)
{
    int64_t until_us = mono_after(c->dialled_us, CALLER_DIAL_MS * MONO_MS);
    if (c->conn != NULL && !c->up && mono_now_us() >= until_us)
        hang_up(c);
    if (c->up)
        say(c);
    else if (c->conn == NULL)
        find(c);
}

static void on_turn(uv_timer_t *timer)
{
    struct caller *c = caller_of(timer->data);
    ddp_assert(c->on && c->by_itself);
    take_turn(c);
}

int caller_init(struct caller *c,
                uv_loop_t *loop,
                struct tls_key *key,
                const struct own_server *own,
                const struct caller_owner *owner,
                void *ctx,
                struct ddp_err *err)
{
    *c = (struct caller){.magic = CALLER_MAGIC,
                         .loop = loop,
                         .key = key,
                         .own = own,
                         .owner = owner,
                         .ctx = ctx};
    (void)uv_timer_init(loop, &c->timer); /* cannot fail */
    c->timer.data = c;
    return resolver_init(&c->resolver, loop, on_resolved, c, err);
}

/* False: it calls there already. */
static bool
begin(struct caller *c, const struct conf_endpoint *at, const struct msg *say)
{
    bool same =
        c->on && c->at.port == at->port && strcmp(c->at.host, at->host) == 0;
    c->say = *say;
    if (same)
        return false;
    hang_up(c);
    c->on = true;
    c->at = *at;
    c->addrs.n = c->next_addr = 0;
    return true;
}

void caller_start(struct caller *c,
                  const struct conf_endpoint *at,
                  const struct msg *say,
                  int64_t every_ms)
{
    ddp_assert(every_ms > 0);
    if (!begin(c, at, say))
        return;
    c->by_itself = true;
    (void)uv_timer_start(&c->timer, on_turn, (uint64_t)every_ms,
                         (uint64_t)every_ms);
    find(c);
}

void caller_ask(struct caller *c,
                const struct conf_endpoint *at,
                const struct msg *say,
                bool anew)
{
    (void)begin(c, at, say);
    c->by_itself = false;
    if (anew && c->up)
        hang_up(c);
    take_turn(c);
}

void caller_stop(struct caller *c)
{
    if (!c->on)
        return;
    c->on = false;
    (void)uv_timer_stop(&c->timer);
    hang_up(c);
}
