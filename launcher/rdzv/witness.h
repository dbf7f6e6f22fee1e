/*
 * launcher/rdzv/witness: the node that serves the rendezvous says farewell to
 * others than its own server, which dies with it. It has connections to two of
 * the places where the nodes go then, and its guard holds them: what the guard
 * says there last proves that everything of this launch is dead on this host.
 */
#ifndef LAUNCHER_RDZV_WITNESS_H
#define LAUNCHER_RDZV_WITNESS_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/rdzv/caller.h"
#include "launcher/rdzv/own_server.h"
#include "rendezvous/proto/msg.h"

#define WITNESS_CONNS 2

/* The caller's storage, for the life of the process; the fields are witness.c's
 * own. */
struct witness {
    uint32_t magic;
    struct caller callers[WITNESS_CONNS]; /* held at 1 + its number */
    const struct conf *conf;
    int guard_fd;
    int which;  /* the endpoint at which that serves, -1: at none */
    bool hosts; /* the agent is connected to our own server */
    struct msg_voters voters;
    struct msg_witness say;
};

/* Borrows all for its life. Errors: DDP_E_NOMEM. */
int witness_init(struct witness *w,
                 uv_loop_t *loop,
                 const struct conf *conf,
                 const struct own_server *own,
                 int guard_fd,
                 struct ddp_err *err);

/* The id of the agent that joins. */
void witness_agent(struct witness *w, const char *agent);

/* The agent is connected to a server, at that endpoint of the list (-1: at
 * none); `hosts`: to our own. False also if the connection has ended: nothing
 * is to be told of this host then. */
void witness_connected(struct witness *w, bool hosts, int which);

/* What came from it. */
void witness_hear(struct witness *w, const struct msg *m);

#endif
