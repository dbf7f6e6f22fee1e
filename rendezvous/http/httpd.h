/*
 * http/httpd: the few HTTP connections that a server has beside its nodes'.
 * They are taken over from there once they turn out to be HTTP, have a table of
 * their own, and can use up neither the nodes' places nor more memory or time
 * than is said here:
 *
 * - a request must be whole within HTTPD_REQUEST_US, its answer taken within
 *   HTTPD_ANSWER_US more;
 * - answers that wait to be sent take HTTPD_BYTES_MAX together;
 * - making costly answers takes HTTPD_BUSY_US of each second.
 *
 * Beyond that a request is answered by 503, and so is one that finds the table
 * full, where somebody makes room whose request is not there after a second, or
 * who keeps the connection open though it was answered.
 */
#ifndef RENDEZVOUS_HTTP_HTTPD_H
#define RENDEZVOUS_HTTP_HTTPD_H

#include <uv.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/http/http.h"
#include "rendezvous/net/conn.h"

#define HTTPD_REQUEST_US (5 * MONO_S)
#define HTTPD_ANSWER_US  (5 * MONO_S)
#define HTTPD_BYTES_MAX  (32u * 1024u * 1024u)
#define HTTPD_BUSY_US    (100 * MONO_MS)

struct httpd_answer {
    int status;       /* 200 */
    const char *type; /* "text/plain; charset=utf-8", constant */
    struct buf body;  /* empty, with the limit that it must keep */
    bool busy;        /* this second's time is used up: only what costs nothing
                         is to be answered */
};

struct httpd_conf {
    int conns_max;
    /* Fills the answer to a request that is whole. `trusted`: the peer has
     * proved that it has the token. -1: the body's limit is too small, or
     * it is busy: 503. */
    int (*answer)(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *answer);
    /* Each answer's status, once. May be NULL. */
    void (*told)(void *ctx, int status);
    void *ctx;
};

struct httpd;

/* Owned by the caller, given back by httpd_close. Dies out of memory. */
struct httpd *httpd_open(uv_loop_t *loop, const struct httpd_conf *conf);

/* Takes over a connection, in its on_foreign. */
void httpd_take(struct httpd *h, struct conn *c);

/* Connections that it has now. */
int httpd_count(const struct httpd *h);

/* Closes all connections; memory goes as the loop runs on. */
void httpd_close(struct httpd *h);

#endif
