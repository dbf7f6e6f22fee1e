/*
 * Happy path: looks_ask has the caller of that place say the question;
 * on_answer tells the agent what came. looks_end closes them all.
 *
 * Failure modes:
 *  - A server cannot be reached, or its host is silent: launcher/rdzv/caller.
 *  - The place is this launcher's own: its server is started by the connection,
 *    as by another node's.
 *  - There is no memory for one more connection: that place is not seen; the
 *    agent asks it again.
 */
#include "launcher/rdzv/looks.h"

#include <string.h>

#include "launcher/rdzv/endpoint.h"
#include "rendezvous/base/err.h"

static int place_of(const struct looks_place *at)
{
    return (int)(at - at->looks->at);
}

static void
on_answer(void *ctx, const struct conf_endpoint *at, const struct msg *m)
{
    const struct looks_place *look = ctx;
    (void)at;
    look->looks->seen(look->looks->ctx, place_of(look), m);
}

static void on_failure(void *ctx)
{
    const struct looks_place *look = ctx;
    look->looks->seen(look->looks->ctx, place_of(look), NULL);
}

void looks_init(struct looks *l,
                uv_loop_t *loop,
                const struct conf *conf,
                const struct own_server *own,
                looks_seen *seen,
                void *ctx)
{
    l->loop = loop;
    l->conf = conf;
    l->own = own;
    l->seen = seen;
    l->ctx = ctx;
}

static bool prepare(struct looks *l, struct looks_place *at)
{
    static const struct caller_owner owner = {
        .calls_own = true,
        .wakes_own = true,
        .hear = on_answer,
        .fails = on_failure,
    };
    struct ddp_err err;
    at->looks = l;
    if (!at->used)
        at->used = caller_init(&at->caller, l->loop, l->conf->token, l->own,
                               &owner, at, &err) == 0;
    return at->used;
}

void looks_ask(struct looks *l,
               int place,
               const char *target,
               int which,
               bool anew,
               const struct msg *say)
{
    struct conf_endpoint to;
    ddp_assert(place >= 0 && place < CANDIDATES_MAX);
    if (target[0] == '\0')
        to = l->conf->endpoints[which];
    else if (!endpoint_read(target, strlen(target), &to))
        return;
    if (prepare(l, &l->at[place]))
        caller_ask(&l->at[place].caller, &to, say, anew);
}

void looks_end(struct looks *l)
{
    for (int i = 0; i < CANDIDATES_MAX; i++)
        if (l->at[i].used)
            caller_stop(&l->at[i].caller);
}
