/*
 * http/httpd: the few HTTP connections that a server has beside its nodes'. The
 * server gives a connection away once its first bytes turn out to be HTTP. They
 * have a table of their own and use none of the nodes' places. Their memory and
 * time are bounded:
 *
 * - a request must be complete within HTTPD_REQUEST_US, and its answer be taken
 *   within HTTPD_ANSWER_US after that;
 * - answers that wait to be sent take HTTPD_BYTES_MAX together at most;
 * - making costly answers takes HTTPD_BUSY_US of each second at most.
 *
 * A request beyond that is answered by 503. If the table is full, a connection
 * gives way whose request has not come within a second, or that was answered
 * and stays open; if there is none, the newcomer is answered by 503.
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
    const char *more; /* header lines, each with its CRLF; "", constant */
    bool watches;     /* set instead of a body: the peer is to be given to
                         on_viewer */
    struct buf body;  /* empty, with the limit that it must keep */
    bool busy;        /* this second's time is used up: only answers that cost
                         nothing may be made */
};

struct httpd_conf {
    int conns_max;
    /* Fills the answer to a complete request, whose Accept field is the first
     * of its fields. `trusted`: the peer has proved that it has the token. -1:
     * the body's limit is too small, or the answer is costly while busy; the
     * client gets 503. */
    int (*answer)(void *ctx,
                  const struct http *request,
                  bool trusted,
                  struct httpd_answer *answer);
    /* Takes over the connection of a request that `watches`, to which nothing
     * has been sent; false: it cannot, the client gets 503. May be NULL if no
     * answer watches. */
    bool (*on_viewer)(void *ctx, struct conn *c);
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
