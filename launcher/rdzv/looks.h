/*
 * launcher/rdzv/looks: the connections on which a launcher whose leader does
 * not answer asks all places who leads the run (launcher/agent/search.c),
 * beside the agent's session.
 */
#ifndef LAUNCHER_RDZV_LOOKS_H
#define LAUNCHER_RDZV_LOOKS_H

#include <uv.h>

#include "launcher/agent/candidates.h"
#include "launcher/conf/conf.h"
#include "launcher/rdzv/caller.h"
#include "launcher/rdzv/own_server.h"
#include "rendezvous/proto/msg.h"

/* What the server at a place answers; NULL: it is not reached. */
typedef void looks_seen(void *ctx, int place, const struct msg *answer);

struct looks;

struct looks_place {
    struct looks *looks;
    bool used; /* its caller is there */
    struct caller caller;
};

/* The caller's storage, zeroed, for the life of the process; the fields are
 * looks.c's own. Most launchers never look: memory of the places is not touched
 * before. */
struct looks {
    uv_loop_t *loop;
    const struct conf *conf;
    const struct own_server *own;
    looks_seen *seen;
    void *ctx;
    struct looks_place at[CANDIDATES_MAX];
};

/* Borrows all for its life. `seen` is called from the loop only. */
void looks_init(struct looks *l,
                uv_loop_t *loop,
                const struct conf *conf,
                const struct own_server *own,
                looks_seen *seen,
                void *ctx);

/* Says that at a place, as in AGENT_LOOK of launcher/agent/agent.h; borrows
 * both for the call. Where nothing can be said nothing is seen. */
void looks_ask(struct looks *l,
               int place,
               const char *target,
               int which,
               bool anew,
               const struct msg *say);

/* Ends all of these connections. */
void looks_end(struct looks *l);

#endif
