/*
 * launcher/rdzv/client: the way to the rendezvous. Resolves the endpoint; if it
 * is on this machine and nobody serves there, serves there (in a process of its
 * own); dials each of its addresses in turn.
 */
#ifndef LAUNCHER_RDZV_CLIENT_H
#define LAUNCHER_RDZV_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

struct link;

/* None of these is called during a call of link_connect or link_send. */
struct link_handler {
    void (*on_up)(void *ctx);
    void (*on_msg)(void *ctx, const struct msg *m);
    /* Also: a try to connect failed. refused: nobody listens there. */
    void (*on_down)(void *ctx, bool refused, const char *why);
};

/* Borrows all for its life, which is the process's. `guard_fd` is where the
 * guard is given duplicates of the connection; `store_chan` is the giving end
 * by which a server of ours hands c10d connections over, -1: not at all. */
struct link *link_new(uv_loop_t *loop,
                      const struct conf *conf,
                      int guard_fd,
                      const struct link_handler *handler,
                      void *ctx,
                      int store_chan,
                      bool debug);

void link_connect(struct link *l);
void link_send(struct link *l, const struct msg *m);

/* Closes without an on_down. */
void link_disconnect(struct link *l);

/* Sends what is queued, then a FIN. */
void link_finish(struct link *l);

/* Our own address of the connection, "" when there is none. */
void link_local_addr(const struct link *l, char *text, size_t size);

/* The port of the rendezvous; of a server of ours the one that it has. */
int link_port(const struct link *l);

/* The process that serves the rendezvous here, 0: none. */
pid_t link_server(const struct link *l);
void link_server_ended(struct link *l); /* it was reaped */
void link_server_kill(struct link *l);

#endif
