/*
 * worker_rt/comm/comm: the public calls. They check what the program passes,
 * which is an error and never an assertion, and hand on to the communicator.
 *
 * An argument that is refused here breaks nothing: nothing was sent yet, and
 * the communicator can be used again. But the other ranks, whose arguments were
 * right, wait for this one until their time-out. An error of the communicator
 * itself breaks it for good, on all ranks (comm/wire).
 */
#include "worker_rt/comm/comm.h"

#include <stdlib.h>

#include "worker_rt/abi.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/head.h"
#include "worker_rt/comm/meet.h"
#include "worker_rt/comm/nccl.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/rt.h"

#define INIT_TIMEOUT_MS (300 * 1000) /* as PyTorch waits for its peers */

static int check_opts(const struct ddp_comm_opts *opts, struct ddp_err *err)
{
    bool known = opts->kind == DDP_COMM_NCCL || opts->kind == DDP_COMM_CPU;
    if (!known || opts->timeout_ms < 0 || opts->init_timeout_ms < 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "the kind of communicator (%d) is unknown, or a "
                           "time-out is negative",
                           (int)opts->kind);
    return 0;
}

/* `rc` is how this rank came here. If it cannot go on, the others hear so. */
static struct ddp_comm *make(struct ddp *d,
                             const struct ddp_comm_opts *opts,
                             int rc,
                             struct ddp_err *err)
{
    /* The number tells communicators of one round apart. It is counted by each
     * rank, so all ranks must make theirs in the same order. */
    struct comm_place place = comm_place_of(d, d->comms++, d->rank, d->world);
    int64_t init_ms =
        opts->init_timeout_ms > 0 ? opts->init_timeout_ms : INIT_TIMEOUT_MS;
    int64_t deadline_us = rt_deadline(init_ms);
    struct ddp_comm *c = NULL;
    if (rc == 0 && check_opts(opts, err) == 0)
        c = opts->kind == DDP_COMM_NCCL
                ? comm_nccl_new(&place, &d->store, opts, deadline_us, err)
                : comm_cpu_new(&place, &d->store, deadline_us, err);
    ddp_assert(c == NULL || (c->rank == d->rank && c->world == d->world));
    if (c == NULL) {
        /* Whether nobody but this rank can know of it. */
        bool own = err->code == DDP_E_NOMEM || err->code == DDP_E_USAGE ||
                   err->code == DDP_E_CONFIG || err->code == DDP_E_IO;
        if (own && d->world > 1)
            comm_meet_give_up(&place, &d->store, err);
        return NULL;
    }
    /* 0 is none, and so is what a clock cannot count. */
    if (opts->timeout_ms > 0 && opts->timeout_ms < INT64_MAX / MONO_MS)
        c->timeout_us = opts->timeout_ms * MONO_MS;
    proof_join(&d->proof, &c->proof);
    return c;
}

struct ddp_comm *ddp_comm_new(struct ddp *d,
                              const struct ddp_comm_opts *opts,
                              struct ddp_error *err)
{
    struct ddp_comm_opts full = {.kind = DDP_COMM_CPU};
    struct ddp_err why;
    int rc = opts == NULL
                 ? 0
                 : abi_take(&full, sizeof(full), opts, ABI_COMM_OPTS_MIN, &why);
    struct ddp_comm *c = make(d, &full, rc, &why);
    if (c == NULL)
        (void)rt_fail(err, &why);
    return c;
}

/* -- the arguments --------------------------------------------------------- */

/* Lengths of up to a quarter of the address space: then no sum of a length and
 * a header, or of two lengths, overflows below. */
static int check_buffer(const struct comm_call *call,
                        const void *data,
                        size_t parts,
                        struct ddp_err *err)
{
    if (call->count > SIZE_MAX / 4 / call->elem / parts ||
        (call->count > 0 && data == NULL) || (uintptr_t)data % call->elem != 0)
        return ddp_err_set(
            err, DDP_E_USAGE,
            "%s: a buffer is NULL, not aligned or too long: count %zu of "
            "%zu-byte elements%s, address %p",
            head_kind_name(call->kind), call->count, call->elem,
            parts > 1 ? " for each rank" : "", data);
    return 0;
}

static int check_types(const struct comm_call *call, struct ddp_err *err)
{
    bool combines =
        call->kind == WIRE_ALLREDUCE || call->kind == WIRE_REDUCE_SCATTER;
    if (call->elem > 0 &&
        (!combines || reduce_find(call->dtype, call->op) != NULL))
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s: dtype %d or operation %d is not one that it takes",
                       head_kind_name(call->kind), (int)call->dtype,
                       (int)call->op);
}

static int
check(const struct ddp_comm *c, struct comm_call *call, struct ddp_err *err)
{
    size_t all = (size_t)c->world;
    size_t in_parts = call->kind == WIRE_REDUCE_SCATTER ? all : 1;
    size_t out_parts = call->kind == WIRE_ALLGATHER ? all : 1;
    if (check_types(call, err) != 0)
        return -1;
    if (call->root < 0 || call->root >= c->world)
        return ddp_err_set(err, DDP_E_USAGE,
                           "%s: there is no such root: %d, this is rank %d of "
                           "%d",
                           head_kind_name(call->kind), call->root, c->rank,
                           c->world);
    if (check_buffer(call, call->in, in_parts, err) != 0)
        return -1;
    return check_buffer(call, call->out, out_parts, err);
}

/* -- collectives ----------------------------------------------------------- */

static int
collective(struct ddp_comm *c, struct comm_call call, struct ddp_error *err)
{
    struct ddp_err why;
    if (check(c, &call, &why) == 0 && c->ops->call(c, &call, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

/* A collective on elements of a dtype. */
static int typed(struct ddp_comm *c,
                 struct comm_call call,
                 enum ddp_dtype dtype,
                 struct ddp_error *err)
{
    call.dtype = dtype;
    call.elem = ddp_dtype_size(dtype);
    return collective(c, call, err);
}

int ddp_comm_all_reduce(struct ddp_comm *c,
                        const void *in,
                        void *out,
                        size_t count,
                        enum ddp_dtype dtype,
                        enum ddp_op op,
                        struct ddp_error *err)
{
    const struct comm_call call = {
        .kind = WIRE_ALLREDUCE, .in = in, .out = out, .count = count, .op = op};
    return typed(c, call, dtype, err);
}

int ddp_comm_allreduce(struct ddp_comm *c,
                       void *data,
                       size_t count,
                       enum ddp_dtype dtype,
                       struct ddp_error *err)
{
    return ddp_comm_all_reduce(c, data, data, count, dtype, DDP_SUM, err);
}

int ddp_comm_reduce_scatter(struct ddp_comm *c,
                            const void *in,
                            void *out,
                            size_t count,
                            enum ddp_dtype dtype,
                            enum ddp_op op,
                            struct ddp_error *err)
{
    const struct comm_call call = {.kind = WIRE_REDUCE_SCATTER,
                                   .in = in,
                                   .out = out,
                                   .count = count,
                                   .op = op};
    return typed(c, call, dtype, err);
}

int ddp_comm_all_gather(struct ddp_comm *c,
                        const void *in,
                        void *out,
                        size_t count,
                        enum ddp_dtype dtype,
                        struct ddp_error *err)
{
    const struct comm_call call = {
        .kind = WIRE_ALLGATHER, .in = in, .out = out, .count = count};
    return typed(c, call, dtype, err);
}

int ddp_comm_allgather(struct ddp_comm *c,
                       const void *mine,
                       size_t len,
                       void *all,
                       struct ddp_error *err)
{
    const struct comm_call call = {.kind = WIRE_ALLGATHER,
                                   .in = mine,
                                   .out = all,
                                   .count = len,
                                   .elem = 1};
    return collective(c, call, err);
}

int ddp_comm_broadcast(
    struct ddp_comm *c, void *data, size_t len, int root, struct ddp_error *err)
{
    return collective(c,
                      (struct comm_call){.kind = WIRE_BROADCAST,
                                         .in = data,
                                         .out = data,
                                         .count = len,
                                         .elem = 1,
                                         .root = root},
                      err);
}

/* -- the rest -------------------------------------------------------------- */

int ddp_comm_barrier(struct ddp_comm *c, struct ddp_error *err)
{
    struct ddp_err why;
    return c->ops->barrier(c, &why) == 0 ? 0 : rt_fail(err, &why);
}

int ddp_comm_wait(struct ddp_comm *c, struct ddp_error *err)
{
    struct ddp_err why;
    return c->ops->wait(c, &why) == 0 ? 0 : rt_fail(err, &why);
}

void *ddp_comm_nccl(struct ddp_comm *c)
{
    return c->ops->nccl == NULL ? NULL : c->ops->nccl(c);
}

void ddp_comm_abort(struct ddp_comm *c)
{
    c->ops->abort(c);
}

void ddp_comm_free(struct ddp_comm *c)
{
    if (c == NULL)
        return;
    /* Nothing rests on how it leaves, unless something is under way. */
    if (c->proof.oldest == 0)
        proof_leave(&c->proof);
    c->ops->leave(c); /* on a broken one it returns at once */
    proof_leave(&c->proof);
    c->ops->del(c);
}
