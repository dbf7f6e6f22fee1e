/*
 * daemon/server_fit: how many nodes and connections the server may have at one
 * time, by its options and by the descriptors that this process may have. No
 * I/O but a line in the log.
 */
#ifndef RENDEZVOUS_DAEMON_SERVER_FIT_H
#define RENDEZVOUS_DAEMON_SERVER_FIT_H

#include <stdbool.h>

#include "rendezvous/base/err.h"
#include "rendezvous/core/rdzv.h"

/* What the options ask for. */
struct server_limits {
    int runs_max;
    int nodes_max; /* of all runs together */
    int conns_max; /* joined and pending; 0: nodes_max and some more */
    int http_max;  /* HTTP connections beside them; 0: it is not served */
};

/* What can be served. */
struct server_capacity {
    int conns_max; /* joined and pending */
    int nodes_max;
    int http_max; /* HTTP connections beside them */
};

/*
 * As much of `limits` as `files` descriptors allow. If that is fewer nodes, the
 * log says so. Some connections are kept beyond the nodes: a node too many must
 * be told so. `store`: connections are handed over to a store, and more of them
 * are pending meanwhile. Errors: DDP_E_NOMEM, too few descriptors to serve at
 * all.
 */
int server_fit(struct server_capacity *capacity,
               const struct server_limits *limits,
               bool store,
               int files,
               struct ddp_err *err);

#endif
