/*
 * launcher/rdzv/reach: whether this node reaches the others that may lead the
 * run. It is tried once a round, while all is well: each voter's port is
 * connected to, and nothing is said there. So a firewall is told of before a
 * host is lost.
 */
#ifndef LAUNCHER_RDZV_REACH_H
#define LAUNCHER_RDZV_REACH_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/rdzv/own_server.h"
#include "rendezvous/proto/msg.h"

#define REACH_TEXT_MAX 700

/* What this node does not reach, for people; borrowed for the call. Not called
 * if it reaches all, nor if that is what was told last. */
typedef void reach_tell(void *ctx, const char *text);

struct reach_try {
    struct reach *reach;
    uv_tcp_t tcp;
    uv_connect_t req;
    bool used;    /* tcp is to be closed */
    bool reached; /* ... or not tried */
    int error;    /* of libuv; 0: no answer */
    char addr[sizeof(((struct msg_serves *)0)->addr)];
};

/* The caller's storage, for the life of the process; the fields are reach.c's
 * own. */
struct reach {
    uv_loop_t *loop;
    const struct own_server *own;
    reach_tell *tell;
    void *ctx;
    uv_timer_t timer; /* runs while tries are under way */
    int open;         /* handles that are not closed yet */
    int64_t round;    /* the one that was tried last */
    struct msg_voters voters;
    int n;
    struct reach_try tries[MSG_VOTERS_MAX];
    char told[REACH_TEXT_MAX];
};

/* Borrows all for its life. */
void reach_init(struct reach *r,
                uv_loop_t *loop,
                const struct own_server *own,
                reach_tell *tell,
                void *ctx);

/* What the leader says. A round that begins is tried. */
void reach_hear(struct reach *r, const struct msg *m);

#endif
