/*
 * Descriptors are the scarce thing: a connection that cannot be accepted waits
 * in the kernel's queue, where a launcher cannot tell it from a dead server. So
 * all limits are cut to what this process can open, before it listens, and some
 * connections are kept free: a node too many must get in to be refused, and a
 * node with a broken connection comes back before that connection is gone.
 */
#include "rendezvous/daemon/server_fit.h"

#include "rendezvous/base/log.h"

#define SPARE_CONNS 64   /* for nodes to refuse, and for reconnects */
#define SPARE_FILES 32   /* not for connections: the loop, stderr, a log */
#define SPARE_HTTP  2    /* of these */
#define STORE_CONNS 2048 /* pending ones more, if there is a store */
#define CONNS_MIN   8

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* If connections are too few for all nodes, fewer nodes may come. Either no
 * more connections were asked for, or no more descriptors can be had. */
static int fit_nodes(int nodes_max, int conns_max, int wanted, int files)
{
    int fit = conns_max - smaller(conns_max / 4, SPARE_CONNS);
    if (nodes_max <= fit)
        return nodes_max;
    if (conns_max == wanted)
        log_warnx("at most %d node%s can join, not %d: raise the limit, "
                  "--max_connections=%d",
                  fit, fit == 1 ? "" : "s", nodes_max, conns_max);
    else
        log_warnx("at most %d node%s can join, not %d: raise the limit of open "
                  "files, which is %d (ulimit -n)",
                  fit, fit == 1 ? "" : "s", nodes_max, files);
    ddp_assert(fit > 0 && fit < nodes_max);
    return fit;
}

int server_fit(struct server_capacity *capacity,
               const struct server_limits *limits,
               bool store,
               int files,
               struct ddp_err *err)
{
    /* HTTP gets a sixteenth of few descriptors. */
    int http_max = smaller(limits->http_max,
                           (files - SPARE_FILES - CONNS_MIN) / 16 + SPARE_HTTP);
    int beside = http_max > SPARE_HTTP ? http_max - SPARE_HTTP : 0;
    int fit = files - SPARE_FILES - beside;
    int wanted = limits->conns_max > 0 ? limits->conns_max
                                       : limits->nodes_max + SPARE_CONNS;
    if (store) { /* and those that wait to be handed over */
        int extra = smaller(fit / 4, STORE_CONNS);
        wanted += extra;
        fit -= extra;
    }
    if (fit < CONNS_MIN)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "the limit of open files is %d; the rendezvous "
                           "needs %d or more (ulimit -n)",
                           files, SPARE_FILES + CONNS_MIN);
    capacity->http_max = http_max;
    wanted = wanted > CONNS_MIN ? wanted : CONNS_MIN;
    capacity->conns_max = smaller(wanted, fit);
    capacity->nodes_max =
        fit_nodes(limits->nodes_max, capacity->conns_max, wanted, files);
    ddp_assert(capacity->conns_max + capacity->http_max < files);
    return 0;
}
