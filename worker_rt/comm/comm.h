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

/* What ranks can be in. */
enum wire_kind {
    WIRE_ALLREDUCE = 1,
    WIRE_BROADCAST,
    WIRE_ALLGATHER,
    WIRE_BARRIER,
    WIRE_LEAVE,
    WIRE_START, /* of NCCL, see comm_nccl */
    WIRE_WAIT,  /* of one rank */
    WIRE_REDUCE_SCATTER,
    WIRE_KINDS
};

/* A call that moves data, its arguments checked. WIRE_BROADCAST has its buffer
 * in `in` and in `out`. */
struct comm_call {
    enum wire_kind kind;
    const void *in;
    void *out;
    size_t count;         /* elements: as in ddp.h, of one rank's part */
    enum ddp_dtype dtype; /* 0: bytes */
    size_t elem;          /* bytes of an element */
    enum ddp_op op;       /* DDP_SUM where it means nothing */
    int root;             /* of a broadcast; else 0 */
};

/*
 * Those that return an int return 0, or -1 with `err`. The arguments have been
 * checked. `abort` comes from other threads. `leave` ends the work on a sound
 * communicator in an orderly way; `del` frees it, broken or not.
 */
struct comm_ops {
    /* A collective that moves data. */
    int (*call)(struct ddp_comm *c,
                const struct comm_call *call,
                struct ddp_err *err);
    int (*barrier)(struct ddp_comm *c, struct ddp_err *err);
    int (*wait)(struct ddp_comm *c, struct ddp_err *err);
    void *(*nccl)(struct ddp_comm *c); /* or NULL */
    void (*abort)(struct ddp_comm *c);
    void (*leave)(struct ddp_comm *c);
    void (*del)(struct ddp_comm *c);
};

/* The first member of every communicator. */
struct ddp_comm {
    const struct comm_ops *ops;
    int rank;
    int world;
    int64_t timeout_us; /* for each call, MONO_NEVER: none */
    struct proof_part proof;
};

struct rt_strangers;

/* Which ranks meet: the fence, and the number of the communicator in it. */
struct comm_place {
    const char *instance; /* 32 hexadecimal digits */
    int64_t round;
    uint64_t key[2]; /* by which ranks of the round know each other */
    struct rt_strangers *strangers; /* those that called are counted there */
    uint32_t id;
    int rank;
    int world;
    bool spans_nodes;
};

/* The bytes of one rank's part of a call. */
static inline size_t comm_call_len(const struct comm_call *call)
{
    return call->count * call->elem;
}

/* Three that libddp needs itself: 0, or -1 with `err`. The first two are of
 * bytes, the last of numbers of 64 bits, in place. */
static inline int comm_broadcast(
    struct ddp_comm *c, void *data, size_t len, int root, struct ddp_err *err)
{
    const struct comm_call call = {.kind = WIRE_BROADCAST,
                                   .in = data,
                                   .out = data,
                                   .count = len,
                                   .elem = 1,
                                   .root = root};
    return c->ops->call(c, &call, err);
}

static inline int comm_allgather(struct ddp_comm *c,
                                 const void *mine,
                                 size_t len,
                                 void *all,
                                 struct ddp_err *err)
{
    const struct comm_call call = {.kind = WIRE_ALLGATHER,
                                   .in = mine,
                                   .out = all,
                                   .count = len,
                                   .elem = 1};
    return c->ops->call(c, &call, err);
}

static inline int comm_allreduce(struct ddp_comm *c,
                                 void *numbers,
                                 size_t n,
                                 enum ddp_dtype dtype,
                                 enum ddp_op op,
                                 struct ddp_err *err)
{
    const struct comm_call call = {.kind = WIRE_ALLREDUCE,
                                   .in = numbers,
                                   .out = numbers,
                                   .count = n,
                                   .dtype = dtype,
                                   .elem = sizeof(int64_t),
                                   .op = op};
    return c->ops->call(c, &call, err);
}

/* For calls that take memory that they do not write. */
static inline void *comm_unconst(const void *p)
{
    return (void *)(uintptr_t)p;
}

#endif
