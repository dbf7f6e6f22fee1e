/*
 * launcher/rdzv/client: the agent's connection to the rendezvous. Resolves an
 * endpoint, or another place where a server said that the run is served; if an
 * endpoint is on this machine and its port is free, starts a server there
 * (launcher/rdzv/own_server); dials each of the addresses in turn.
 */
#ifndef LAUNCHER_RDZV_CLIENT_H
#define LAUNCHER_RDZV_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/proto/msg.h"

struct rdzv_client;

/* None of these is called during a call of rdzv_client_connect or
 * rdzv_client_send. */
struct rdzv_client_handler {
    void (*on_connected)(void *ctx);
    void (*on_msg)(void *ctx, const struct msg *m);
    /* Also: a try to connect failed. */
    void (*on_disconnected)(void *ctx, const char *why);
    /* After rdzv_client_look; `answer` NULL: the place is not reached. */
    void (*on_seen)(void *ctx, int place, const struct msg *answer);
    /* Places at which the run may be served later are not reached; for people.
     */
    void (*on_unreached)(void *ctx, const char *text);
};

/* Borrows all for its life, which is the process's. `store_chan` is the giving
 * end by which a server of ours passes c10d connections on, -1: there is none.
 */
struct rdzv_client *rdzv_client_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    const struct rdzv_client_handler *handler,
                                    void *ctx,
                                    int store_chan,
                                    bool debug);

/* One try; on_connected or on_disconnected follows. Not while one is under way
 * or a connection is up. `target` is "ADDR:PORT", borrowed for the call, or ""
 * for the endpoint `which` of the list, counted from 0. The caller may give the
 * try up (rdzv_client_disconnect). */
void rdzv_client_connect(struct rdzv_client *cl, const char *target, int which);

/* Beside that connection, says `say` to the server at a place, with `target`
 * and `which` as above; on_seen follows if anything does. The connection stays
 * open for the next look. */
void rdzv_client_look(struct rdzv_client *cl,
                      int place,
                      const char *target,
                      int which,
                      bool anew,
                      const struct msg *say);
/* Ends all of these. */
void rdzv_client_look_over(struct rdzv_client *cl);

/* Nothing is sent without a connection. Of a join, what only the connection and
 * the own server know (hosts, serve_port) is filled in. */
void rdzv_client_send(struct rdzv_client *cl, const struct msg *m);

/* From now on guard and janitor say that for this node, once it is dead; also
 * during rdzv_client_connect and rdzv_client_send. */
void rdzv_client_record(struct rdzv_client *cl, const struct msg_vote *said);

/* Closes, or ends a try; on_disconnected is not called. */
void rdzv_client_disconnect(struct rdzv_client *cl);

/* Sends what is queued, then a FIN. */
void rdzv_client_finish(struct rdzv_client *cl);

/* What a join says of the connection: our address there, if none was given; and
 * the port for the workers' store, if this launcher serves at it. */
void rdzv_client_complete(const struct rdzv_client *cl, struct msg_join *j);

/* The port of the rendezvous where it was looked for last. If it was 0 and this
 * launcher serves, the port that its server got. */
int rdzv_client_port(const struct rdzv_client *cl);

/* Whether the server that it was connected to last is this launcher's own. */
bool rdzv_client_hosts(const struct rdzv_client *cl);

/* The process that serves the rendezvous here, 0: none. */
pid_t rdzv_client_server(const struct rdzv_client *cl);
void rdzv_client_server_ended(struct rdzv_client *cl); /* it was reaped */
void rdzv_client_server_kill(struct rdzv_client *cl);

#endif
