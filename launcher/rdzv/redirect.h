/*
 * launcher/rdzv/redirect: while the run is served elsewhere than at an
 * endpoint, its first nodes, by group rank, keep telling that endpoint where it
 * is. So a node that comes back, or a newcomer, which know the endpoints only,
 * find the run. Several tell, since no new round may come until they do: the
 * node with group rank 0 is perhaps the very one that comes back. A daemon that
 * is back there would have the run again; the server is told that, until this
 * node was sent there.
 */
#ifndef LAUNCHER_RDZV_REDIRECT_H
#define LAUNCHER_RDZV_REDIRECT_H

#include <stdbool.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "launcher/rdzv/caller.h"
#include "launcher/rdzv/own_server.h"
#include "rendezvous/proto/msg.h"

/* The server that the agent is connected to is to be told this: it has a
 * younger instance of the run than is known at an endpoint, or a daemon there
 * would have the run. */
typedef void redirect_relay(void *ctx, const struct msg *m);

/* The caller's storage, for the life of the process; the fields are
 * redirect.c's own. */
struct redirect {
    const struct conf *conf;
    redirect_relay *relay;
    void *ctx;
    struct caller callers[CONF_ENDPOINTS_MAX];
    bool connected;
    int which;  /* the endpoint that it is connected to; -1: none of them */
    bool leads; /* the server has shown that it is */
    bool tells; /* this node is one of the first */
    int64_t born_us; /* when the instance had its first round */
    struct msg_serves say;
    /* Ids of the daemon that would have the run, and of the last one to which
     * this node was sent; "": none. */
    char offers[MSG_VOTER_LEN + 1], had[MSG_VOTER_LEN + 1];
};

/* `r` is zeroed: it is large, and most of it stays untouched. Borrows all for
 * its life. Errors: DDP_E_NOMEM. */
int redirect_init(struct redirect *r,
                  uv_loop_t *loop,
                  const struct conf *conf,
                  const struct own_server *own,
                  redirect_relay *relay,
                  void *ctx,
                  struct ddp_err *err);

/* The agent's connection is up, to this host and port; `which` of the list of
 * endpoints it is, -1: none. */
void redirect_connected(struct redirect *r,
                        const char *host,
                        int port,
                        int which);
/* What came on it. */
void redirect_hear(struct redirect *r, const struct msg *m);
void redirect_disconnected(struct redirect *r);

#endif
