/*
 * Happy path: the agent is connected to a server, which shows its office and
 * tells the round; if this node is one of the first TELLERS there, each
 * endpoint that is not that server is called (launcher/rdzv/caller).
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

#define TELLERS MSG_VOTERS_MAX /* of these, half and more are there */

static void stop(struct redirect *r)
{
    for (int i = 0; i < r->conf->endpoints_len; i++)
        caller_stop(&r->callers[i]);
}

static void update(struct redirect *r)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves = r->say};
    if (!r->connected || !r->in_office || !r->tells ||
        r->say.instance[0] == '\0' || r->say.addr[0] == '\0') {
        stop(r);
        return;
    }
    ddp_assert(r->say.epoch > 0);
    for (int i = 0; i < r->conf->endpoints_len; i++)
        if (i != r->which)
            caller_start(&r->callers[i], &r->conf->endpoints[i], &m, true);
        else
            caller_stop(&r->callers[i]);
}

int redirect_init(struct redirect *r,
                  uv_loop_t *loop,
                  const struct conf *conf,
                  const struct own_server *own,
                  struct ddp_err *err)
{
    *r = (struct redirect){.conf = conf, .say.version = MSG_VERSION};
    msg_set(r->say.run, conf->run_id);
    for (int i = 0; i < conf->endpoints_len; i++)
        if (caller_init(&r->callers[i], loop, conf->token, own, NULL, NULL,
                        err) != 0)
            return -1;
    return 0;
}

void redirect_connected(struct redirect *r,
                        const char *host,
                        int port,
                        int which)
{
    bool v6 = strchr(host, ':') != NULL;
    char addr[300];
    int len = snprintf(addr, sizeof(addr), v6 ? "[%s]:%d" : "%s:%d", host,
                       port); /* fits */
    r->connected = true;
    r->in_office = false;
    r->which = which;
    r->say.addr[0] = '\0'; /* too long to be told: nobody is sent there */
    if (len > 0 && (size_t)len < sizeof(r->say.addr))
        memcpy(r->say.addr, addr, (size_t)len + 1);
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
