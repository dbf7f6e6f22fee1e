/*
 * Happy path: the agent is connected to a server, which shows its office and
 * tells the round; if this node is one of the first TELLERS there, each
 * endpoint that is not that server is called (launcher/rdzv/caller).
 *
 * Failure mode: the run is served here as another, younger instance than is
 * known at an endpoint, since that was begun there while the endpoint knew of
 * no other. The endpoint's server says so (`moved`), and the server here is
 * told, as it would be if it were at the endpoint (`serves`): its nodes go
 * there.
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

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define TELLERS          MSG_VOTERS_MAX /* of these, half and more are there */
#define AGE_MS_MAX       INT64_C(86400000000) /* of messages.def */
#define SERVES_ADDR_SIZE ((int)sizeof(((struct msg_serves *)0)->addr))

static void stop(struct redirect *r)
{
    for (int i = 0; i < r->conf->endpoints_len; i++)
        caller_stop(&r->callers[i]);
}

/* A lease after it was started an endpoint may found another run. */
static int64_t every_ms(const struct conf *c)
{
    return mono_min(CALLER_DIAL_MS, c->heartbeat_timeout_us / MONO_MS / 4);
}

static void update(struct redirect *r)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves = r->say};
    bool gathers = r->say.instance[0] == '\0';
    bool tells = gathers ? r->which > 0 : r->tells;
    if (!r->connected || !r->in_office || !tells || r->say.addr[0] == '\0') {
        stop(r);
        return;
    }
    ddp_assert(r->say.epoch > 0);
    if (gathers)
        m.serves.addr[0] = '\0'; /* where is it? */
    for (int i = 0; i < r->conf->endpoints_len; i++)
        if (gathers ? i < r->which : i != r->which)
            caller_start(&r->callers[i], &r->conf->endpoints[i], &m,
                         every_ms(r->conf));
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

/* The host and port in one; "": they do not fit. */
static void place(const char *host, int port, char addr[SERVES_ADDR_SIZE])
{
    char text[300];
    bool v6 = strchr(host, ':') != NULL;
    int len = snprintf(text, sizeof(text), v6 ? "[%s]:%d" : "%s:%d", host,
                       port); /* fits */
    addr[0] = '\0';
    if (len > 0 && len < SERVES_ADDR_SIZE)
        memcpy(addr, text, (size_t)len + 1);
}

/* An older instance is served at that endpoint, or from there it is known
 * where. Our server would not hear of it from others. Or nodes gather there,
 * and here, at an address behind it. */
static void
on_answer(void *ctx, const struct conf_endpoint *at, const struct msg *m)
{
    const struct redirect *r = ctx;
    const struct msg_moved *to = &m->moved;
    struct msg out = {.kind = MSG_KIND_serves, .serves = r->say};
    if (m->kind != MSG_KIND_moved || to->epoch == 0 || !r->connected ||
        !r->in_office ||
        (r->say.instance[0] != '\0' &&
         (to->instance[0] == '\0' ||
          msg_same_instance(to->instance, r->say.instance))))
        return;
    msg_set(out.serves.instance, to->instance);
    out.serves.instance_ms = to->instance_ms;
    out.serves.epoch = to->epoch;
    msg_set(out.serves.epoch_id, to->epoch_id);
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
    *r = (struct redirect){
        .conf = conf, .relay = relay, .ctx = ctx, .say.version = MSG_VERSION};
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
    r->in_office = false;
    r->which = which;
    place(host, port, r->say.addr); /* "": nobody is sent there */
}

void redirect_hear(struct redirect *r, const struct msg *m)
{
    if (m->kind == MSG_KIND_office) {
        r->in_office = true;
        r->say.epoch = m->office.epoch;
        msg_set(r->say.epoch_id, m->office.epoch_id);
    } else if (m->kind == MSG_KIND_world) {
        r->tells = m->world.group_rank < TELLERS;
        msg_set(r->say.instance, m->world.instance);
        r->born_us = mono_now_us() - m->world.instance_ms * MONO_MS;
    } else if (m->kind == MSG_KIND_end || m->kind == MSG_KIND_moved ||
               m->kind == MSG_KIND_refused) {
        r->in_office = false;
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
