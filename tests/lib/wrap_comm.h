/*
 * tests/lib/wrap_comm: communicators over TCP that do something else than they
 * ought to, in programs that are linked with --wrap=comm_cpu_new.
 */
#ifndef WRAP_COMM_H
#define WRAP_COMM_H

#include "worker_rt/comm/comm.h"

struct store_client;

struct ddp_comm *__real_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err);
struct ddp_comm *__wrap_comm_cpu_new(const struct comm_place *place,
                                     struct store_client *store,
                                     int64_t deadline_us,
                                     struct ddp_err *err);

/* From now on `call` does what `c` is asked for; `mine` is room for all
 * operations. Returns what did it before. */
static inline const struct comm_ops *
wrap_calls(struct ddp_comm *c,
           struct comm_ops *mine,
           int (*call)(struct ddp_comm *c,
                       const struct comm_call *call,
                       struct ddp_err *err))
{
    const struct comm_ops *before = c->ops;
    *mine = *before;
    mine->call = call;
    c->ops = mine;
    return before;
}

#endif
