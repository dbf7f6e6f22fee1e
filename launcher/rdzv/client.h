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

struct rdzv_client;

/* None of these is called during a call of rdzv_client_connect or
 * rdzv_client_send. */
struct rdzv_client_handler {
    void (*on_connected)(void *ctx);
    void (*on_msg)(void *ctx, const struct msg *m);
    /* Also: a try to connect failed. refused: nobody listens there. */
    void (*on_disconnected)(void *ctx, bool refused, const char *why);
};

/* Borrows all for its life, which is the process's. `guard_fd` is where the
 * guard is given duplicates of the connection; `store_chan` is the giving end
 * by which a server of ours hands c10d connections over, -1: not at all. */
struct rdzv_client *rdzv_client_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    int guard_fd,
                                    const struct rdzv_client_handler *handler,
                                    void *ctx,
                                    int store_chan,
                                    bool debug);

void rdzv_client_connect(struct rdzv_client *cl);
void rdzv_client_send(struct rdzv_client *cl, const struct msg *m);

/* Closes without an on_down. */
void rdzv_client_disconnect(struct rdzv_client *cl);

/* Sends what is queued, then a FIN. */
void rdzv_client_finish(struct rdzv_client *cl);

/* Our own address of the connection, "" when there is none. */
void rdzv_client_local_addr(const struct rdzv_client *cl,
                            char *text,
                            size_t size);

/* The port of the rendezvous; of a server of ours the one that it has. */
int rdzv_client_port(const struct rdzv_client *cl);

/* The process that serves the rendezvous here, 0: none. */
pid_t rdzv_client_server(const struct rdzv_client *cl);
void rdzv_client_server_ended(struct rdzv_client *cl); /* it was reaped */
void rdzv_client_server_kill(struct rdzv_client *cl);

#endif
