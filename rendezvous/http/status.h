/*
 * http/status: what the daemon shows of itself: the parts of its
 * document (http/overview), and Prometheus' text format 0.0.4 for GET /metrics.
 * Times are spans; only sealed_unix is the reading of a clock. All texts from
 * peers are escaped.
 */
#ifndef RENDEZVOUS_HTTP_STATUS_H
#define RENDEZVOUS_HTTP_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/account/account.h"
#include "rendezvous/base/buf.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/http/http.h"
#include "rendezvous/net/conn.h"

/* Why a connection was closed before its node joined. */
enum reject {
    REJECT_TOKEN,
    REJECT_PROTOCOL,
    REJECT_SILENT,
    REJECT_NO_ROOM,
    REJECT_NOT_ACCEPTED,
    REJECT_COUNT
};

/* What the server counts from its start on. */
struct status_counts {
    int64_t accepted;
    int64_t rejected[REJECT_COUNT]; /* closed before they joined */
    int64_t broken;                 /* joined, and broke */
    struct conn_counts conn;
    struct {
        int code; /* 0: not used yet */
        int64_t answers;
    } http[HTTP_STATUSES];
    int64_t ticks, lag_us, lag_max_us;
};

/* One more answer with that code, one of HTTP_STATUSES. */
void status_count_http(struct status_counts *counts, int code);

/* What the core does not know of the server. Borrowed for the call. */
struct status_daemon {
    const char *incarnation; /* hexadecimal; a new one at each start */
    int64_t uptime_us;
    bool token;
    int nodes, pending, http; /* connections */
    int conns_max, http_max;
    const struct status_counts *counts;
    const struct account *accounts; /* of each place for a run */
};

/* When that is asked: by the clock of the core, and by the machine's. */
struct status_when {
    int64_t now_us, unix_us;
};

/* Appends to `out`, as Prometheus' text or as OpenMetrics; -1 if that is full
 * or there is no memory. */
int status_metrics(struct buf *out,
                   const struct rdzv *r,
                   const struct status_daemon *d,
                   int64_t now_us,
                   bool openmetrics);

#endif
