/*
 * Happy path: our own server shows its office, tells the round and its voters;
 * where the nodes would go without it is called: the endpoint behind its own in
 * a list, and the first voters that would serve and are not this node, two
 * places in all; once such a connection is up the guard gets a duplicate of it,
 * and then the voter is told for whom it stands.
 *
 * The calls end when this node is connected to its own server no more: then
 * that server's farewell, which the guard says on the agent's connection, goes
 * to a server that outlives this host.
 */
#include "launcher/rdzv/witness.h"

#include <string.h>

#include "launcher/proc/guard.h"
#include "launcher/rdzv/endpoint.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/conn.h"

_Static_assert(WITNESS_CONNS < GUARD_CONNS, "the guard cannot hold them");

#define WITNESS_MAGIC 0x7769746eu

static struct witness *witness_of(void *data)
{
    struct witness *w = data;
    ddp_assert(w != NULL && w->magic == WITNESS_MAGIC);
    return w;
}

static void call(struct witness *w, int i, const struct conf_endpoint *at)
{
    struct msg m = {.kind = MSG_KIND_witness, .witness = w->say};
    if (at != NULL)
        caller_start(&w->callers[i], at, &m, false);
    else
        caller_stop(&w->callers[i]);
}

/* The next word of a list, each of which is followed by a blank; its length, 0:
 * there is none. */
static size_t next_word(const char **list, const char **word)
{
    *word = *list;
    size_t len = strcspn(*list, " ");
    *list += len + ((*list)[len] == ' ' ? 1 : 0);
    return len;
}

/* The places of the next endpoint, if there is a list, and of the first voters
 * that would serve and are not this node. */
static int choose(const struct witness *w,
                  struct conf_endpoint at[WITNESS_CONNS])
{
    const char *ids = w->voters.ids, *addrs = w->voters.addrs;
    const char *id, *addr;
    int n = 0;
    if (w->which >= 0 && w->conf->endpoints_len > 1)
        at[n++] = w->conf->endpoints[(w->which + 1) % w->conf->endpoints_len];
    for (int i = 0; i < MSG_VOTERS_MAX && n < WITNESS_CONNS; i++) {
        size_t id_len = next_word(&ids, &id);
        size_t addr_len = next_word(&addrs, &addr);
        if (id_len == 0 || addr_len == 0)
            break;
        bool self = id_len == MSG_VOTER_LEN &&
                    memcmp(id, w->say.agent, MSG_VOTER_LEN) == 0;
        n += !self && endpoint_read(addr, addr_len, &at[n]);
    }
    return n;
}

static void update(struct witness *w)
{
    struct conf_endpoint at[WITNESS_CONNS];
    bool told = w->hosts && w->say.agent[0] != '\0' &&
                w->say.instance[0] != '\0' && w->say.epoch_id[0] != '\0';
    int n = told ? choose(w, at) : 0;
    for (int i = 0; i < WITNESS_CONNS; i++)
        call(w, i, i < n ? &at[i] : NULL);
}

static void on_up(void *ctx, struct conn *c, struct msg *say)
{
    struct witness *w = witness_of(ctx);
    char here[CONN_END_MAX];
    size_t len;
    const uint8_t *farewell = conn_farewell(c, &len);
    conn_here_end(c, here);
    msg_set(say->witness.here, here);
    int place = 1;
    while (place < WITNESS_CONNS && w->callers[place - 1].conn != c)
        place++;
    guard_hold(w->guard_fd, place, conn_fd(c), farewell, len);
}

int witness_init(struct witness *w,
                 uv_loop_t *loop,
                 const struct conf *conf,
                 const struct own_server *own,
                 int guard_fd,
                 struct ddp_err *err)
{
    static const struct caller_owner owner = {.complete = on_up};
    *w = (struct witness){.magic = WITNESS_MAGIC,
                          .conf = conf,
                          .guard_fd = guard_fd,
                          .say.version = MSG_VERSION};
    msg_set(w->say.run, conf->run_id);
    for (int i = 0; i < WITNESS_CONNS; i++)
        if (caller_init(&w->callers[i], loop, conf->token, own, &owner, w,
                        err) != 0)
            return -1;
    return 0;
}

void witness_agent(struct witness *w, const char *agent)
{
    msg_set(w->say.agent, agent);
}

void witness_connected(struct witness *w, bool hosts, int which)
{
    w->hosts = hosts;
    w->which = which;
    w->say.epoch_id[0] = '\0'; /* until its server shows office */
    update(w);
}

void witness_hear(struct witness *w, const struct msg *m)
{
    if (m->kind == MSG_KIND_voters)
        w->voters = m->voters;
    else if (m->kind == MSG_KIND_office)
        msg_set(w->say.epoch_id, m->office.epoch_id);
    else if (m->kind == MSG_KIND_world)
        msg_set(w->say.instance, m->world.instance);
    else
        return;
    update(w);
}
