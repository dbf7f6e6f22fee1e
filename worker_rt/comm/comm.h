/*
 * worker_rt/comm/comm: what every communicator is to the rest of libddp. comm.c
 * checks the arguments of the public calls and passes them on to the one that
 * was chosen; comm_cpu is one, comm_nccl the other.
 */
#ifndef WORKER_RT_COMM_COMM_H
#define WORKER_RT_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "worker_rt/ddp.h"
#include "worker_rt/proof.h"

/*
 * All but `abort` return 0 or -1 with `err`. The arguments have been checked.
 * `abort` comes from other threads. `leave` ends the work on a sound
 * communicator in an orderly way; `del` frees it, broken or not.
 */
struct comm_ops {
    int (*allreduce)(struct ddp_comm *c,
                     void *data,
                     size_t count,
                     enum ddp_dtype dtype,
                     struct ddp_err *err);
    int (*broadcast)(struct ddp_comm *c,
                     void *data,
                     size_t len,
                     int root,
                     struct ddp_err *err);
    int (*allgather)(struct ddp_comm *c,
                     const void *mine,
                     size_t len,
                     void *all,
                     struct ddp_err *err);
    int (*barrier)(struct ddp_comm *c, struct ddp_err *err);
    int (*wait)(struct ddp_comm *c, struct ddp_err *err); /* or NULL */
    void (*abort)(struct ddp_comm *c);
    void (*leave)(struct ddp_comm *c);
    void (*del)(struct ddp_comm *c);
};

/* The first member of every communicator. */
struct ddp_comm {
    const struct comm_ops *ops;
    int rank;
    int world;
    int64_t timeout_us; /* for each collective, MONO_NEVER: none */
    struct proof_part proof;
};

/* Which ranks meet: the fence, and the number of the communicator in it. */
struct comm_place {
    const char *instance; /* 32 hexadecimal digits */
    int64_t round;
    uint32_t id;
    int rank;
    int world;
    bool spans_nodes;
};

#endif
