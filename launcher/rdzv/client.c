/*
 * Happy path of a try (rdzv_client_connect):
 *
 *     IDLE -> RESOLVING -> DIALLING -> UP
 *
 * A numeric address needs no resolver and goes from IDLE to DIALLING. Before
 * the first address of an endpoint is dialled, the client starts a server if it
 * is local and the port is free (launcher/rdzv/own_server). Addresses are
 * dialled one after the other. Each endpoint of the list has its own resolver,
 * so that one whose name server hangs does not hold up the others; all other
 * places share one.
 *
 * Failure modes:
 *  - The name does not resolve, or every address failed: FAILING, and
 *    on_disconnected from a timer of 0 ms. The caller is inside a step of the
 *    agent's core, and must not be called back from there.
 *  - The resolver hangs: the try ends after RESOLVE_MS. The resolver cannot be
 *    called back, so it runs on; what it says later is for the next try.
 *  - An address does not answer: the next one is dialled after dial_ms. The
 *    caller may give the try up before that, in any state.
 *  - The server has another token: the launcher and the rendezvous never get
 *    together. If no address let this launcher in, and none ever did, that ends
 *    the launch. Later it does not: nothing proves that such an answer comes
 *    from the rendezvous, and it must not end a run that works.
 *  - A connection that was up breaks: on_disconnected at once, state IDLE.
 */
#include "launcher/rdzv/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/rdzv/endpoint.h"
#include "launcher/rdzv/farewell_places.h"
#include "launcher/rdzv/looks.h"
#include "launcher/rdzv/own_server.h"
#include "launcher/rdzv/reach.h"
#include "launcher/rdzv/redirect.h"
#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/net/conn.h"

#define DIAL_MS    5000 /* at most; less where read_timeout is */
#define RESOLVE_MS 2000 /* a resolver may well take longer, but not unsaid */

#define CLIENT_MAGIC 0x525a434cu
#define PLACE_MAGIC  0x706c6163u

enum client_state {
    CLIENT_IDLE,
    CLIENT_RESOLVING, /* the timer ends it */
    CLIENT_DIALLING,  /* `conn` is not up; the timer ends it */
    CLIENT_FAILING,   /* the timer tells of it */
    CLIENT_UP,
};

enum reached {
    NEVER_UP,
    WAS_UP,
    WAS_HEARD, /* a server has said something */
};

/* What a try has come to so far. */
struct attempt {
    bool token_differs; /* said one of them */
    char why[256];      /* "": nothing went wrong yet */
};

/* Where a server may be. */
struct place {
    uint32_t magic;
    struct rdzv_client *client;
    char host[sizeof(((struct conf_endpoint *)0)->host)];
    int port; /* where to dial: the server's own choice for port 0 */
    struct resolver resolver; /* it may be busy for a try that is over */
    struct addr_list addrs;
    bool fresh; /* `addrs` came from it, and were not tried yet */
    bool taken; /* a server that is not ours was up there */
};

struct rdzv_client {
    uint32_t magic;
    uv_loop_t *loop;
    const struct conf *conf;
    const struct rdzv_client_handler *handler;
    void *ctx;

    enum client_state state;
    uv_timer_t timer; /* a dial's end, or a failure to be told */
    struct attempt attempt;
    struct conn *conn; /* DIALLING and UP only */

    struct place places[CONF_ENDPOINTS_MAX + 1]; /* the last: not of the list */
    struct place *to; /* of this try, or of the last one */
    int next_addr;    /* of its addresses */
    struct sockaddr_storage dialled;

    enum reached reached; /* by any try */
    struct own_server own;
    bool hosts; /* the server that we were up with last is our own */
    struct redirect redirect;
    struct looks looks;
    struct reach reach;
    struct farewell_places farewell;
};

static struct rdzv_client *client_of(void *data)
{
    struct rdzv_client *cl = data;
    ddp_assert(cl != NULL && cl->magic == CLIENT_MAGIC);
    return cl;
}

static bool is_endpoint(const struct rdzv_client *cl, const struct place *p)
{
    return p - cl->places < cl->conf->endpoints_len;
}

/* What holds in each state, when no callback is under way. */
static void check_client(const struct rdzv_client *cl)
{
    bool connected = cl->state == CLIENT_DIALLING || cl->state == CLIENT_UP;
    ddp_assert((cl->conn != NULL) == connected);
    ddp_assert(cl->state != CLIENT_RESOLVING ||
               resolver_is_busy(&cl->to->resolver));
    ddp_assert(cl->state != CLIENT_UP || cl->reached != NEVER_UP);
}

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err);

static void open_place(struct rdzv_client *cl,
                       struct place *p,
                       const struct conf_endpoint *at)
{
    struct ddp_err err;
    p->magic = PLACE_MAGIC;
    p->client = cl;
    memcpy(p->host, at->host, sizeof(p->host));
    p->port = at->port;
    if (resolver_init(&p->resolver, cl->loop, on_resolved, p, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
}

static void relay(void *ctx, const struct msg *m)
{
    struct rdzv_client *cl = client_of(ctx);
    if (cl->state == CLIENT_UP)
        conn_send(cl->conn, m);
}

static void on_seen(void *ctx, int place, const struct msg *answer)
{
    struct rdzv_client *cl = client_of(ctx);
    cl->handler->on_seen(cl->ctx, place, answer);
}

static void on_unreached(void *ctx, const char *text)
{
    struct rdzv_client *cl = client_of(ctx);
    cl->handler->on_unreached(cl->ctx, text);
}

struct rdzv_client *rdzv_client_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    const struct rdzv_client_handler *handler,
                                    void *ctx,
                                    int store_chan,
                                    bool debug)
{
    static const struct conf_endpoint nowhere;
    struct ddp_err err;
    struct rdzv_client *cl = calloc(1, sizeof(*cl));
    if (cl == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "no memory for the rendezvous client");
    cl->magic = CLIENT_MAGIC;
    cl->loop = loop;
    cl->conf = conf;
    cl->handler = handler;
    cl->ctx = ctx;
    cl->to = &cl->places[0];
    (void)uv_timer_init(loop, &cl->timer); /* cannot fail */
    cl->timer.data = cl;
    for (int i = 0; i < conf->endpoints_len; i++)
        open_place(cl, &cl->places[i], &conf->endpoints[i]);
    open_place(cl, &cl->places[CONF_ENDPOINTS_MAX], &nowhere);
    own_server_init(&cl->own, loop, conf, store_chan, debug);
    looks_init(&cl->looks, loop, conf, &cl->own, on_seen, cl);
    reach_init(&cl->reach, loop, &cl->own, on_unreached, cl);
    farewell_places_init(&cl->farewell, conf);
    for (int i = 0; i < conf->endpoints_len; i++)
        farewell_places_endpoint(&cl->farewell, i, &cl->places[i].addrs);
    if (redirect_init(&cl->redirect, loop, conf, &cl->own, relay, cl, &err) !=
        0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    return cl;
}

/* -- failing --------------------------------------------------------------- */

static void on_fail_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    const struct attempt *a = &cl->attempt;
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    check_client(cl);
    cl->state = CLIENT_IDLE;
    if (!a->token_differs || cl->reached != NEVER_UP) {
        cl->handler->on_disconnected(cl->ctx, a->why);
        return;
    }
    msg_set(no.refused.text, a->why);
    cl->handler->on_msg(cl->ctx, &no);
}

/* The first reason is told. */
static void keep_reason(struct rdzv_client *cl, const char *why)
{
    if (cl->attempt.why[0] == '\0')
        msg_set(cl->attempt.why, why);
}

static void fail_soon(struct rdzv_client *cl)
{
    cl->state = CLIENT_FAILING;
    check_client(cl);
    (void)uv_timer_start(&cl->timer, on_fail_timer, 0, 0);
}

/* -- serving --------------------------------------------------------------- */

/* Serves at this address, unless another program has the port. Returns whether
 * no other address needs to be looked at. */
static bool serve_at(struct rdzv_client *cl, const struct sockaddr *sa)
{
    struct ddp_err err;
    struct place *p = cl->to;
    pid_t pid = own_server_serve(&cl->own, sa, cl->reached == NEVER_UP, &err);
    if (pid < 0)
        keep_reason(cl, err.text);
    if (pid <= 0)
        return pid < 0 && err.code != DDP_E_CONFIG;
    p->port = own_server_home_port(&cl->own);
    return true;
}

/* An address of which that cannot be found out is served by nobody, for now. */
static bool is_ours(struct rdzv_client *cl, const struct sockaddr *sa)
{
    char at[ADDR_TEXT_MAX], why[256];
    enum addr_local local = addr_is_local(sa);
    int error = errno;
    if (local == ADDR_UNKNOWN) {
        addr_text(sa, at);
        (void)snprintf(why, sizeof(why), /* fits */
                       "cannot find out whether %s is an address of this node, "
                       "which would serve there then: getifaddrs: %s",
                       at, strerror(error));
        keep_reason(cl, why);
    }
    return local == ADDR_HERE;
}

/* Serves the rendezvous if it is to be here and nobody else ever did. If a
 * server that was there is lost, the nodes elect one of themselves at their
 * spare ports: the endpoint's stays free for a daemon that comes back. */
static void try_to_serve(struct rdzv_client *cl)
{
    const struct place *p = cl->to;
    if (own_server_pid(&cl->own) > 0 || cl->conf->is_host == 0 ||
        !is_endpoint(cl, p))
        return;
    if (p->taken && cl->conf->is_host != 1)
        return; /* it is left to the server that was there */
    for (int i = 0; i < p->addrs.n; i++) {
        const struct sockaddr *sa = (const struct sockaddr *)&p->addrs.at[i];
        if ((cl->conf->is_host == 1 || is_ours(cl, sa)) && serve_at(cl, sa))
            return;
    }
}

/* -- dialling -------------------------------------------------------------- */

static void dial_next(struct rdzv_client *cl);

/* The guard, which resolves no names, says farewell at each endpoint. Asked for
 * with each round, since names change. A try asks by itself. */
static void resolve_for_farewell(struct rdzv_client *cl)
{
    struct ddp_err err;
    for (int i = 0; i < cl->conf->endpoints_len; i++) {
        struct place *p = &cl->places[i];
        if (!resolver_is_busy(&p->resolver) &&
            !resolver_is_needless(p->host, p->port, &p->addrs))
            (void)resolver_start(&p->resolver, p->host, p->port, &err);
    }
}

static void on_up(void *ctx, struct conn *c)
{
    struct rdzv_client *cl = client_of(ctx);
    ddp_assert(cl->state == CLIENT_DIALLING && cl->conn == c);
    (void)uv_timer_stop(&cl->timer);
    cl->state = CLIENT_UP;
    if (cl->reached == NEVER_UP)
        cl->reached = WAS_UP;
    cl->hosts =
        own_server_is_at(&cl->own, (const struct sockaddr *)&cl->dialled);
    cl->to->taken |= !cl->hosts;
    int which = is_endpoint(cl, cl->to) ? (int)(cl->to - cl->places) : -1;
    redirect_connected(&cl->redirect, cl->to->host, cl->to->port, which);
    farewell_places_connected(&cl->farewell, &cl->dialled, cl->hosts);
    cl->handler->on_connected(cl->ctx);
}

/* Every worker finds these in its environment. A server of ours says nothing
 * impossible; something else that answers there may. */
static bool is_possible(const struct msg_world *w, int nproc)
{
    if (strspn(w->instance, "0123456789abcdef") != RNG_ID_LEN ||
        w->term.id[strspn(w->term.id, "0123456789abcdef")] != '\0')
        return false;
    for (const char *p = w->master_addr; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return w->master_addr[0] != '\0' && w->group_rank < w->group_world &&
           w->base_rank + nproc <= w->world_size &&
           w->role_rank + nproc <= w->role_world;
}

/* The addresses in it as this host reaches them: copies it if they differ. */
static const struct msg *
with_own_zones(const struct conn *c, const struct msg *m, struct msg *copy)
{
    char here[ADDR_TEXT_MAX];
    conn_here(c, here);
    if (strchr(here, '%') == NULL ||
        (m->kind != MSG_KIND_world && m->kind != MSG_KIND_voters &&
         m->kind != MSG_KIND_serves))
        return m;
    *copy = *m;
    if (m->kind == MSG_KIND_world)
        endpoint_own_zone(copy->world.master_addr,
                          sizeof(copy->world.master_addr), here);
    else if (m->kind == MSG_KIND_voters)
        endpoint_own_zone(copy->voters.addrs, sizeof(copy->voters.addrs), here);
    else
        endpoint_own_zone(copy->serves.addr, sizeof(copy->serves.addr), here);
    return copy;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    struct rdzv_client *cl = client_of(ctx);
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_PROTO};
    struct msg own;
    ddp_assert(cl->state == CLIENT_UP);
    cl->reached = WAS_HEARD;
    m = with_own_zones(c, m, &own);
    redirect_hear(&cl->redirect, m);
    if (m->kind == MSG_KIND_voters)
        resolve_for_farewell(cl);
    farewell_places_hear(&cl->farewell, m);
    reach_hear(&cl->reach, m);
    if (m->kind == MSG_KIND_world && !is_possible(&m->world, cl->conf->nproc)) {
        msg_set(no.refused.text,
                "the ranks or the address that it gave are impossible");
        m = &no; /* it would give the same again */
    }
    cl->handler->on_msg(cl->ctx, m);
}

static void on_closed(void *ctx, struct conn *c, const char *why)
{
    struct rdzv_client *cl = client_of(ctx);
    ddp_assert(cl->conn == c);
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    cl->conn = NULL;
    if (cl->state == CLIENT_UP) {
        cl->state = CLIENT_IDLE;
        redirect_disconnected(&cl->redirect);
        cl->handler->on_disconnected(cl->ctx, why);
        return;
    }
    if (conn_token_differs(c) && !cl->attempt.token_differs) {
        cl->attempt.token_differs = true;
        cl->attempt.why[0] = '\0'; /* it counts for more than what was before */
    }
    keep_reason(cl, why);
    dial_next(cl);
}

static const struct conn_handler handler = {
    .on_up = on_up,
    .on_msg = on_msg,
    .on_closed = on_closed,
};

/* For one address. */
static int64_t dial_ms(const struct rdzv_client *cl)
{
    return mono_min(DIAL_MS, cl->conf->read_timeout_us / MONO_MS);
}

static void on_dial_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    char why[64];
    ddp_assert(cl->state == CLIENT_DIALLING);
    (void)snprintf(why, sizeof(why), "no answer in %.12g s", /* it fits */
                   (double)dial_ms(cl) / 1000.0);
    conn_close(cl->conn);
    cl->conn = NULL;
    keep_reason(cl, why);
    dial_next(cl);
}

static void dial_next(struct rdzv_client *cl)
{
    struct ddp_err err;
    if (cl->next_addr >= cl->to->addrs.n) {
        fail_soon(cl);
        return;
    }
    cl->dialled = cl->to->addrs.at[cl->next_addr++];
    /* The port to dial, which a server of ours may have chosen, lies at one
     * place in v4 and v6. */
    struct sockaddr_in in;
    memcpy(&in, &cl->dialled, sizeof(in));
    in.sin_port = htons((uint16_t)cl->to->port);
    memcpy(&cl->dialled, &in, sizeof(in));
    cl->conn = conn_dial(cl->loop, (const struct sockaddr *)&cl->dialled,
                         &handler, cl, &err);
    if (cl->conn == NULL) {
        keep_reason(cl, err.text);
        dial_next(cl);
        return;
    }
    cl->state = CLIENT_DIALLING;
    conn_secure(cl->conn, cl->conf->token);
    (void)uv_timer_start(&cl->timer, on_dial_timer, (uint64_t)dial_ms(cl), 0);
}

static void resolved(struct rdzv_client *cl)
{
    cl->next_addr = 0;
    cl->to->fresh = false;
    if (cl->to->addrs.n == 0)
        keep_reason(cl, "the host name has no address");
    try_to_serve(cl);
    dial_next(cl);
}

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err)
{
    struct place *p = ctx;
    ddp_assert(p != NULL && p->magic == PLACE_MAGIC);
    struct rdzv_client *cl = client_of(p->client);
    if (strcmp(p->resolver.host, p->host) != 0)
        return; /* of a place that is tried no more */
    p->fresh = list != NULL && cl->state != CLIENT_UP;
    if (list != NULL)
        p->addrs = *list;
    farewell_places_update(&cl->farewell);
    if (cl->state != CLIENT_RESOLVING || cl->to != p)
        return; /* late: what came is for the next try */
    (void)uv_timer_stop(&cl->timer);
    if (list != NULL) {
        resolved(cl);
        return;
    }
    keep_reason(cl, err->text);
    fail_soon(cl);
}

/* The resolver cannot be called back: it is left to itself. */
static void on_resolve_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    char why[300];
    ddp_assert(cl->state == CLIENT_RESOLVING);
    (void)snprintf(why, sizeof(why),
                   "no name server has answered for the name '%.100s' in %d s",
                   cl->to->host, RESOLVE_MS / 1000);
    keep_reason(cl, why);
    on_fail_timer(timer);
}

static void wait_for_resolver(struct rdzv_client *cl)
{
    cl->state = CLIENT_RESOLVING;
    (void)uv_timer_start(&cl->timer, on_resolve_timer, RESOLVE_MS, 0);
}

/* The place of this try; false: there is none, and why is kept. */
static bool choose(struct rdzv_client *cl, const char *target, int which)
{
    struct conf_endpoint at;
    struct place *p = &cl->places[CONF_ENDPOINTS_MAX];
    if (target[0] == '\0') {
        ddp_assert(which >= 0 && which < cl->conf->endpoints_len);
        cl->to = &cl->places[which];
        return true;
    }
    cl->to = p;
    if (!endpoint_read(target, strlen(target), &at)) {
        keep_reason(cl, "the address that a server told is none");
        return false;
    }
    if (strcmp(p->host, at.host) != 0) {
        p->fresh = false;
        memcpy(p->host, at.host, sizeof(p->host));
    }
    p->port = at.port;
    return true;
}

/* Whether the resolver is at it; else why not is kept. */
static bool resolve(struct rdzv_client *cl)
{
    struct ddp_err err;
    struct place *p = cl->to;
    if (resolver_is_busy(&p->resolver)) { /* on_resolved goes on */
        if (strcmp(p->resolver.host, p->host) == 0)
            return true;
        keep_reason(cl, "another name is still being resolved");
        return false;
    }
    if (resolver_start(&p->resolver, p->host, p->port, &err) == 0)
        return true;
    keep_reason(cl, err.text);
    return false;
}

void rdzv_client_connect(struct rdzv_client *cl, const char *target, int which)
{
    ddp_assert(cl->state == CLIENT_IDLE);
    check_client(cl);
    cl->attempt = (struct attempt){.token_differs = false};
    if (!choose(cl, target, which))
        fail_soon(cl);
    else if (!resolver_is_busy(&cl->to->resolver) &&
             (cl->to->fresh ||
              resolver_is_needless(cl->to->host, cl->to->port, &cl->to->addrs)))
        resolved(cl);
    else if (resolve(cl))
        wait_for_resolver(cl);
    else
        fail_soon(cl);
}

void rdzv_client_look(struct rdzv_client *cl,
                      int place,
                      const char *target,
                      int which,
                      bool anew,
                      const struct msg *say)
{
    looks_ask(&cl->looks, place, target, which, anew, say);
}

void rdzv_client_look_over(struct rdzv_client *cl)
{
    looks_end(&cl->looks);
}

/* -- the connection -------------------------------------------------------- */

void rdzv_client_send(struct rdzv_client *cl, const struct msg *m)
{
    struct msg said = *m;
    if (cl->state != CLIENT_UP)
        return;
    if (m->kind == MSG_KIND_join) { /* the agent's core knows no sockets */
        said.join.serve_port = own_server_spare_port(&cl->own);
        said.join.hosts = cl->hosts;
    }
    conn_send(cl->conn, &said);
}

void rdzv_client_record(struct rdzv_client *cl, const struct msg_vote *said)
{
    farewell_places_record(&cl->farewell, said);
}

void rdzv_client_disconnect(struct rdzv_client *cl)
{
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    if (cl->conn != NULL)
        conn_close(cl->conn);
    cl->conn = NULL;
    if (cl->state == CLIENT_UP)
        redirect_disconnected(&cl->redirect);
    cl->state = CLIENT_IDLE;
}

void rdzv_client_finish(struct rdzv_client *cl)
{
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    if (cl->conn != NULL)
        conn_finish(cl->conn);
    cl->conn = NULL;
    looks_end(&cl->looks);
    redirect_disconnected(&cl->redirect);
    cl->state = CLIENT_IDLE;
}

void rdzv_client_complete(const struct rdzv_client *cl, struct msg_join *j)
{
    char here[ADDR_TEXT_MAX] = "";
    if (rdzv_client_hosts(cl) && conf_shares_port(cl->conf))
        j->port = rdzv_client_port(cl);
    if (cl->conn != NULL)
        conn_here(cl->conn, here);
    if (j->addr[0] == '\0')
        msg_set(j->addr, here);
}

int rdzv_client_port(const struct rdzv_client *cl)
{
    return cl->to->port;
}

bool rdzv_client_hosts(const struct rdzv_client *cl)
{
    return cl->hosts && own_server_pid(&cl->own) > 0;
}

pid_t rdzv_client_server(const struct rdzv_client *cl)
{
    return own_server_pid(&cl->own);
}

void rdzv_client_server_ended(struct rdzv_client *cl)
{
    own_server_ended(&cl->own, cl->reached != WAS_HEARD);
}

void rdzv_client_server_kill(struct rdzv_client *cl)
{
    own_server_kill(&cl->own);
}
