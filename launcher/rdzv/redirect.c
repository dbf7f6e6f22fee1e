/*
 * Happy path: the agent is connected to a server, which shows its term and
 * tells the round; if this node is one of the first TELLERS there, each
 * endpoint that is not that server is called (launcher/rdzv/caller).
 *
 * Failure mode: the run is served here as another, younger instance than is
 * known at an endpoint, since that was begun there while the endpoint knew of
 * no other. The endpoint's server says so (`serves`), and the server here is
 * told, as it would be if it were at the endpoint: its nodes go there.
 *
 * Before the first round nodes that gather at an address of the list ask those
 * before it, at which others may gather: then all meet there.
 *
 * The calls end with the connection, with `end`, and with a round in which this
 * node is not one of the first. An endpoint that nobody tells forgets after 3
 * s; a node that comes then gathers there as if the run were new, and is sent
 * on as soon as the next call comes.
 */
#include "launcher/rdzv/redirect.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"

#define TELLERS          MSG_VOTERS_MAX /* of these, half and more are there */
#define AGE_MS_MAX       INT64_C(86400000000) /* of messages.def */
#define SERVES_ADDR_SIZE ((int)sizeof(((struct msg_serves *)0)->addr))

static void update(struct redirect *r)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves = r->say};
    bool gathers = r->say.instance[0] == '\0';
    bool tells = gathers ? r->which > 0 : r->tells;
    if (!r->connected || !r->leads || !tells || r->say.addr[0] == '\0') {
        for (int i = 0; i < r->conf->endpoints_len; i++)
            caller_stop(&r->callers[i]);
        return;
    }
    ddp_assert(r->say.term.count > 0);
    if (gathers)
        m.serves.addr[0] = '\0'; /* where is it? */
    for (int i = 0; i < r->conf->endpoints_len; i++)
        if (gathers ? i < r->which : i != r->which)
            /* An endpoint may found another run a lease after its start. */
            caller_start(&r->callers[i], &r->conf->endpoints[i], &m,
                         mono_min(CALLER_DIAL_MS,
                                  r->conf->heartbeat_timeout_us / MONO_MS / 4));
        else
            caller_stop(&r->callers[i]);
}

/* How old it is by now. */
static void complete(void *ctx, struct msg *say)
{
    const struct redirect *r = ctx;
    if (say->serves.addr[0] != '\0')
        say->serves.instance_ms =
            mono_min((mono_now_us() - r->born_us) / MONO_MS, AGE_MS_MAX);
}

_Static_assert(CONF_TOLD_HOST_MAX + sizeof(":65535") <= SERVES_ADDR_SIZE,
               "each host of a list can be told");

/* The host and port in one. A name that is alone in its list may be longer than
 * there is room: it is cut, and only people read it. */
static void place(const char *host, int port, char addr[SERVES_ADDR_SIZE])
{
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(addr, SERVES_ADDR_SIZE, v6 ? "[%.*s]:%u" : "%.*s:%u",
                   CONF_TOLD_HOST_MAX, host, (unsigned)(uint16_t)port);
}

/* A daemon at that endpoint would have the run, and did not have its turn. */
static bool is_offer(const struct redirect *r, const struct msg *m)
{
    const struct msg_serves *to = &m->serves;
    return m->kind == MSG_KIND_serves && to->term.count == 0 &&
           to->term.id[0] != '\0' && r->connected && r->leads &&
           msg_same_instance(to->instance, r->say.instance) &&
           strcmp(to->term.id, r->had) != 0;
}

static void pass_offer(struct redirect *r,
                       const struct conf_endpoint *at,
                       const struct msg_serves *to)
{
    struct msg out = {.kind = MSG_KIND_serves, .serves = r->say};
    msg_set(r->offers, to->term.id);
    msg_set(out.serves.term.id, to->term.id);
    place(at->host, at->port, out.serves.addr);
    r->relay(r->ctx, &out);
}

/* An older instance is served at that endpoint, or from there it is known
 * where. Our server would not hear of it from others. Or nodes gather there,
 * and here, at an address behind it. */
static void
on_answer(void *ctx, const struct conf_endpoint *at, const struct msg *m)
{
    struct redirect *r = ctx;
    const struct msg_serves *to = &m->serves;
    struct msg out = {.kind = MSG_KIND_serves, .serves = r->say};
    if (is_offer(r, m)) {
        pass_offer(r, at, to);
        return;
    }
    if (m->kind != MSG_KIND_serves || to->term.count == 0 || !r->connected ||
        !r->leads ||
        (r->say.instance[0] != '\0' &&
         (to->instance[0] == '\0' ||
          msg_same_instance(to->instance, r->say.instance))))
        return;
    msg_set(out.serves.instance, to->instance);
    out.serves.instance_ms = to->instance_ms;
    out.serves.term = to->term;
    msg_set(out.serves.addr, to->addr);
    if (to->addr[0] == '\0')
        place(at->host, at->port, out.serves.addr);
    r->relay(r->ctx, &out);
}

int redirect_init(struct redirect *r,
                  uv_loop_t *loop,
                  const struct conf *conf,
                  const struct own_server *own,
                  redirect_relay *relay,
                  void *ctx,
                  struct ddp_err *err)
{
    static const struct caller_owner owner = {
        .calls_own = true, /* it may gather newcomers at the endpoint */
        .complete = complete,
        .hear = on_answer,
    };
    r->conf = conf;
    r->relay = relay;
    r->ctx = ctx;
    r->say.version = MSG_VERSION;
    msg_set(r->say.run, conf->run_id);
    for (int i = 0; i < conf->endpoints_len; i++)
        if (caller_init(&r->callers[i], loop, conf->token, own, &owner, r,
                        err) != 0)
            return -1;
    return 0;
}

void redirect_connected(struct redirect *r,
                        const char *host,
                        int port,
                        int which)
{
    r->connected = true;
    r->leads = false;
    r->which = which;
    place(host, port, r->say.addr); /* "": nobody is sent there */
}

void redirect_hear(struct redirect *r, const struct msg *m)
{
    if (m->kind == MSG_KIND_prepare) {
        r->leads = true;
        r->say.term = m->prepare.term;
    } else if (m->kind == MSG_KIND_world) {
        r->tells = m->world.group_rank < TELLERS;
        msg_set(r->say.instance, m->world.instance);
        r->born_us = mono_now_us() - m->world.instance_ms * MONO_MS;
    } else if (m->kind == MSG_KIND_end || m->kind == MSG_KIND_serves ||
               m->kind == MSG_KIND_refused) {
        r->leads = false;
        if (m->kind == MSG_KIND_serves && m->serves.addr[0] == '\0')
            msg_set(r->had, r->offers);
    } else {
        return;
    }
    update(r);
}

void redirect_disconnected(struct redirect *r)
{
    r->connected = false;
    update(r);
}
