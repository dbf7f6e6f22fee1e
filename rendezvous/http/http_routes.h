/*
 * http/http_routes: the pages /, /events, /healthz, /status and /metrics, and
 * which peers may see them. Pure: from a view of the server to an answer.
 */
#ifndef RENDEZVOUS_HTTP_HTTP_ROUTES_H
#define RENDEZVOUS_HTTP_HTTP_ROUTES_H

#include "rendezvous/http/http_hosts.h"
#include "rendezvous/http/httpd.h"
#include "rendezvous/http/status.h"

struct http_routes_view {
    const struct rdzv *rdzv;   /* borrowed */
    struct overview *overview; /* borrowed: makes /status, and no other */
    struct status_daemon daemon;
    const struct http_hosts *hosts; /* borrowed: by which names it is asked */
    bool open_metrics;              /* /metrics needs no token */
    struct status_when when;
};

/*
 * Answers a complete request. If its Host is none of ours, only /healthz is
 * shown, except to a peer that has proved that it has the token. If there is a
 * token (daemon.token) and the peer has not proved that it has it (`trusted`),
 * only /healthz is shown. -1: the answer does not fit into its body's limit, or
 * is costly while `busy`.
 */
int http_routes_answer(const struct http_routes_view *v,
                       const struct http *request,
                       bool trusted,
                       struct httpd_answer *answer);

#endif
