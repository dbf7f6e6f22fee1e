/*
 * daemon/server_fit: how many may come at one time, by the descriptors that
 * this process may have. No I/O but the limit itself and a line in the log.
 */
#ifndef RENDEZVOUS_DAEMON_SERVER_FIT_H
#define RENDEZVOUS_DAEMON_SERVER_FIT_H

#include <stdbool.h>

#include "rendezvous/base/err.h"
#include "rendezvous/core/rdzv.h"

/* How many may come at most. */
struct server_limits {
    int runs_max;
    int nodes_max; /* of all runs together */
    /* Percent of these that one source (base/quota) may have, 0: all; without
     * effect with a key. */
    int runs_share, nodes_share;
    int conns_max; /* of nodes and strangers; 0: nodes_max and some more */
    int http_max;  /* HTTP connections beside them; 0: it is not served */
};

/* What there is room for. */
struct server_capacity {
    int conns_max; /* of nodes and strangers */
    int nodes_max;
    int http_max; /* HTTP connections beside them */
};

/*
 * As much of `limits` as goes into `files` descriptors. Where that is fewer
 * nodes, the log says so: who is one too many must still get a connection, to
 * be told so. `store`: connections are handed over to one, which takes more.
 * Errors: DDP_E_NOMEM, they are too few to serve anybody.
 */
int server_fit(struct server_capacity *capacity,
               const struct server_limits *limits,
               bool store,
               int files,
               struct ddp_err *err);

/* What the core may give away of that, and to one source; all to each where
 * whoever comes is trusted. */
struct rdzv_limits server_shares(const struct server_capacity *capacity,
                                 const struct server_limits *limits,
                                 bool trusted);

#endif
