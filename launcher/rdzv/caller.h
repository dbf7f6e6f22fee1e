/*
 * launcher/rdzv/caller: keeps a connection to the server at one place, beside
 * the agent's session, on which one message is told: again and again
 * (caller_start), or whenever the owner wants it (caller_ask). Resolves the
 * name, connects, says the message; whatever fails is tried again by and by.
 */
#ifndef LAUNCHER_RDZV_CALLER_H
#define LAUNCHER_RDZV_CALLER_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/rdzv/own_server.h"
#include "launcher/rdzv/resolver.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/proto/msg.h"

#define CALLER_DIAL_MS 1000

struct conn;

/* What its owner does; any function may be NULL. None of them is called during
 * a call of caller_start, caller_ask or caller_stop. */
struct caller_owner {
    bool calls_own; /* this launcher's own server, too, while it runs */
    bool wakes_own; /* ... also if it starts by that */
    /* The message is about to be said; may complete it. */
    void (*complete)(void *ctx, struct msg *say);
    /* The server at that place answers. */
    void (*hear)(void *ctx,
                 const struct conf_endpoint *at,
                 const struct msg *m);
    /* Nobody listens there, or the connection broke. That nothing comes back is
     * not told. */
    void (*fails)(void *ctx);
};

/* The caller's storage, for the life of the process; the fields are caller.c's
 * own. */
struct caller {
    uint32_t magic;
    uv_loop_t *loop;
    struct tls_key *key;
    const struct own_server *own;
    const struct caller_owner *owner;
    void *ctx;

    bool on;
    bool by_itself;
    uv_timer_t timer;
    struct conf_endpoint at;
    struct msg say;
    struct resolver resolver;
    struct addr_list addrs;
    int next_addr;
    int64_t dialled_us;
    struct conn *conn; /* NULL: none, also none that is being dialled */
    bool up;
};

/* Borrows all for its life. A server that is `own` is not called, unless the
 * owner wants it. Errors: DDP_E_NOMEM. */
int caller_init(struct caller *c,
                uv_loop_t *loop,
                struct tls_key *key,
                const struct own_server *own,
                const struct caller_owner *owner,
                void *ctx,
                struct ddp_err *err);

/* Calls there from now on, and says this message each `every_ms`; copies both.
 * If it calls another place so far, that connection ends. The message may
 * change while the place stays. */
void caller_start(struct caller *c,
                  const struct conf_endpoint *at,
                  const struct msg *say,
                  int64_t every_ms);

/* Says the message there now, or as soon as there is a connection, for which it
 * dials anew if the last dial was not answered within CALLER_DIAL_MS; `anew`:
 * also if there is one. Does nothing by itself after that. */
void caller_ask(struct caller *c,
                const struct conf_endpoint *at,
                const struct msg *say,
                bool anew);

/* Ends the connection. */
void caller_stop(struct caller *c);

#endif
