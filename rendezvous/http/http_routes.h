/*
 * http/http_routes: what there is to GET: /, /healthz, /status, /metrics, and
 * who may see it. Pure: from a view of the server to an answer.
 */
#ifndef RENDEZVOUS_HTTP_HTTP_ROUTES_H
#define RENDEZVOUS_HTTP_HTTP_ROUTES_H

#include "rendezvous/http/httpd.h"
#include "rendezvous/http/status.h"

struct http_routes_view {
    const struct rdzv *rdzv; /* borrowed */
    struct status_daemon daemon;
    bool open_metrics; /* /metrics needs no token */
    int64_t now_us;
};

/*
 * Answers a request that is whole. Where there is a token (daemon.token) and
 * the peer did not prove that it has it (`trusted`), only /healthz is shown.
 * -1: the answer does not fit into its body's limit, or costs something though
 * it is busy.
 */
int http_routes_answer(const struct http_routes_view *v,
                       const struct http *request,
                       bool trusted,
                       struct httpd_answer *answer);

#endif
