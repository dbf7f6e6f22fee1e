/*
 * daemon/server_fit: how many may come at one time, by the descriptors that
 * this process may have. No I/O but the limit itself and a line in the log.
 */
#ifndef SERVER_FIT_H
#define SERVER_FIT_H

#include "rendezvous/base/err.h"
#include "rendezvous/core/rdzv.h"
#include "rendezvous/daemon/server.h"

/* Raises the soft limit of open files to the hard one; returns it, a million at
 * most. */
int server_raise_files(void);

/* What there is room for. */
struct server_room {
    int conns_max; /* of nodes and strangers */
    int nodes_max;
    int http_max; /* HTTP connections beside them */
};

/*
 * As much of what `conf` wants as goes into `files` descriptors. Where that is
 * fewer nodes than it wants, the log says so: who is one too many must still
 * get a connection, to be told so. Errors: DDP_E_NOMEM, they are too few to
 * serve anybody.
 */
int server_fit(struct server_room *room,
               const struct server_conf *conf,
               int files,
               struct ddp_err *err);

/* What the core may give away of that, and to one source. */
struct rdzv_limits server_limits(const struct server_conf *conf,
                                 const struct server_room *room);

#endif
