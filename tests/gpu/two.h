/*
 * tests/gpu/two: two ranks on one GPU, which NCCL takes for two hosts since
 * NCCL_HOSTID differs: so they meet over sockets, as real nodes do. Includes
 * what such a program needs.
 */
#ifndef GPU_TWO_H
#define GPU_TWO_H

#include "tests/bench/snapshot/common.h"
#include "tests/gpu/card.h"
#include "worker_rt/ddp.h"

/* The GPU, and this rank's handle. Before NCCL is loaded. */
static inline struct ddp *two_start(void)
{
    card_open();
    struct ddp *d = ddp_init(&err);
    check(d == NULL ? -1 : 0);
    if (setenv("NCCL_HOSTID", ddp_rank(d) == 0 ? "one" : "two", 1) != 0 ||
        setenv("NCCL_SOCKET_IFNAME", "lo", 0) != 0)
        exit(1);
    return d;
}

static inline struct ddp_comm *two_join(struct ddp *d, void *stream, bool async)
{
    const struct ddp_comm_opts opts = {.size = sizeof(opts),
                                       .kind = DDP_COMM_NCCL,
                                       .stream = stream,
                                       .async = async,
                                       .timeout_ms = 30000};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &err);
    check(c == NULL ? -1 : 0);
    return c;
}

#endif
