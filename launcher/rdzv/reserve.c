/*
 * Happy path: the server shows its office and tells the round and its voters;
 * the first place behind its own in the agent's order (agent/candidates) that
 * is not on its host is called, after a time that is drawn, so that not all
 * nodes of a large round come at once. The connection stays there, unused. When
 * the server is lost and the agent goes to that place, it is given the
 * connection (reserve_take).
 *
 * Failure modes:
 *  - Nobody takes the connection, or it ends: called again each AGAIN_MS.
 *  - The agent goes to another place: it dials, as without all this.
 *  - The host there has died without a word: the connection looks alive for up
 *    to 25 s (net/conn). An agent that takes it gets no answer, and goes on to
 *    the next place, as with a server that is frozen.
 *  - The place is this node's own server: none is needed.
 */
#include "launcher/rdzv/reserve.h"

#include <string.h>

#include "launcher/rdzv/endpoint.h"
#include "rendezvous/net/conn.h"

#define RESERVE_MAGIC 0x72657372u
#define AGAIN_MS      10000
/* A handshake takes the server 0.15 ms: so it is busy for a seventh of the time
 * in which the nodes of a round come. */
#define NODE_MS 1

#define PLACES_MAX (CONF_ENDPOINTS_MAX + MSG_VOTERS_MAX)

static struct reserve *reserve_of(void *data)
{
    struct reserve *r = data;
    ddp_assert(r != NULL && r->magic == RESERVE_MAGIC);
    return r;
}

/* All places where the agent looks for a server, in its order. */
static int list(const struct reserve *r, struct conf_endpoint all[PLACES_MAX])
{
    const char *addr = r->voters.addrs;
    int n = r->conf->endpoints_len;
    memcpy(all, r->conf->endpoints, (size_t)n * sizeof(all[0]));
    while (*addr != '\0' && n < PLACES_MAX) {
        size_t len = strcspn(addr, " ");
        n += endpoint_read(addr, len, &all[n]);
        addr += len;
        addr += strspn(addr, " ");
    }
    return n;
}

/* False: there is none. */
static bool choose(const struct reserve *r, struct conf_endpoint *at)
{
    struct conf_endpoint all[PLACES_MAX];
    int n = list(r, all);
    int from = r->which;
    for (int i = r->conf->endpoints_len; i < n && from < 0; i++)
        if (endpoint_is_same(&all[i], &r->server))
            from = i;
    for (int i = 1; i <= n; i++) {
        const struct conf_endpoint *e = &all[(from + i) % n];
        if (strcmp(e->host, r->peer) == 0 ||
            strcmp(e->host, r->server.host) == 0 || e->port == 0)
            continue;
        *at = *e;
        return true;
    }
    return false;
}

static void on_timer(uv_timer_t *timer)
{
    struct reserve *r = reserve_of(timer->data);
    struct msg m = {.kind = MSG_KIND_reserve, .reserve.version = MSG_VERSION};
    caller_start(&r->caller, &r->to, &m, false);
}

static void update(struct reserve *r)
{
    struct conf_endpoint at;
    if (r->conf->token == NULL || !r->in_office || !choose(r, &at)) {
        reserve_stop(r);
        return;
    }
    if (endpoint_is_same(&at, &r->to))
        return;
    reserve_stop(r);
    r->to = at;
    uint32_t ms = rng_below(&r->rng, (uint32_t)r->nodes * NODE_MS + 1);
    (void)uv_timer_start(&r->timer, on_timer, ms, 0);
}

int reserve_init(struct reserve *r,
                 uv_loop_t *loop,
                 const struct conf *conf,
                 const struct own_server *own,
                 struct ddp_err *err)
{
    static const struct caller_owner owner = {.every_ms = AGAIN_MS};
    *r = (struct reserve){.magic = RESERVE_MAGIC, .conf = conf, .which = -1};
    (void)uv_timer_init(loop, &r->timer); /* cannot fail */
    r->timer.data = r;
    rng_init(&r->rng, rng_seed());
    return caller_init(&r->caller, loop, conf->token, own, &owner, r, err);
}

void reserve_connected(struct reserve *r,
                       const struct conf_endpoint *server,
                       int which,
                       const char *peer)
{
    r->server = *server;
    r->which = which;
    msg_set(r->peer, peer);
}

void reserve_hear(struct reserve *r, const struct msg *m)
{
    if (m->kind == MSG_KIND_voters)
        r->voters = m->voters;
    else if (m->kind == MSG_KIND_office)
        r->in_office = true;
    else if (m->kind == MSG_KIND_world)
        r->nodes = (int)m->world.group_world;
    else if (m->kind == MSG_KIND_end || m->kind == MSG_KIND_refused)
        r->in_office = false;
    else
        return;
    update(r);
}

struct conn *reserve_take(struct reserve *r,
                          const struct conf_endpoint *at,
                          struct sockaddr_storage *dialled)
{
    struct conn *c = caller_take(&r->caller, at, dialled);
    if (c != NULL)
        reserve_stop(r);
    return c;
}

void reserve_stop(struct reserve *r)
{
    (void)uv_timer_stop(&r->timer);
    caller_stop(&r->caller);
    r->to.port = 0;
}
