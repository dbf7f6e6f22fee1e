/*
 * launcher/rdzv/reserve: with a token, a connection to the place where the
 * agent goes if its server is lost, made while nothing presses. Both ends have
 * proved by then that they have the token, which is most of what a node costs
 * the next server: ten thousand at once would take it seconds, in which leases
 * end.
 */
#ifndef LAUNCHER_RDZV_RESERVE_H
#define LAUNCHER_RDZV_RESERVE_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/rdzv/caller.h"
#include "launcher/rdzv/own_server.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/proto/msg.h"

/* The caller's storage, for the life of the process; the fields are reserve.c's
 * own. */
struct reserve {
    uint32_t magic;
    const struct conf *conf;
    struct caller caller;
    uv_timer_t timer; /* runs until `to` is called */
    struct rng rng;
    struct conf_endpoint to; /* port 0: nowhere */
    /* The server: where it is, as it was dialled, and at which of the endpoints
     * (-1: at none); the address of its host. */
    struct conf_endpoint server;
    int which;
    char peer[ADDR_TEXT_MAX];
    bool in_office;
    int nodes; /* of its round */
    struct msg_voters voters;
};

/* Borrows all for its life. Errors: DDP_E_NOMEM. */
int reserve_init(struct reserve *r,
                 uv_loop_t *loop,
                 const struct conf *conf,
                 const struct own_server *own,
                 struct ddp_err *err);

/* The agent is connected to this server (see struct reserve). What is in
 * reserve stays until that has told where the nodes go without it. */
void reserve_connected(struct reserve *r,
                       const struct conf_endpoint *server,
                       int which,
                       const char *peer);

/* What came from it. */
void reserve_hear(struct reserve *r, const struct msg *m);

/* The connection to that place, which is the taker's now, and its address;
 * NULL: there is none. */
struct conn *reserve_take(struct reserve *r,
                          const struct conf_endpoint *at,
                          struct sockaddr_storage *dialled);

/* Ends it. */
void reserve_stop(struct reserve *r);

#endif
