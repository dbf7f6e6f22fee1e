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

#include "worker_rt/abi.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/nccl.h"
#include "worker_rt/rt.h"

#define INIT_TIMEOUT_MS (300 * 1000) /* as PyTorch waits for its peers */

static struct ddp_comm *
make(struct ddp *d, const struct ddp_comm_opts *opts, struct ddp_err *err)
{
    bool nccl = opts->kind == DDP_COMM_NCCL;
    if ((!nccl && opts->kind != DDP_COMM_CPU) || opts->timeout_ms < 0 ||
        opts->init_timeout_ms < 0) {
        (void)ddp_err_set(err, DDP_E_USAGE,
                          "the kind of communicator (%d) is unknown, or a "
                          "time-out is negative",
                          (int)opts->kind);
        return NULL;
    }
    /* The number tells communicators of one round apart. It is counted by each
     * rank, so all ranks must make theirs in the same order. */
    struct comm_place place = {.instance = d->instance,
                               .round = d->round,
                               .id = d->comms++,
                               .rank = d->rank,
                               .world = d->world,
                               .spans_nodes = d->world > d->local_world};
    int64_t init_ms =
        opts->init_timeout_ms > 0 ? opts->init_timeout_ms : INIT_TIMEOUT_MS;
    int64_t deadline_us = rt_deadline(init_ms);
    struct ddp_comm *c =
        nccl ? comm_nccl_new(&place, &d->store, opts, deadline_us, err)
             : comm_cpu_new(&place, &d->store, deadline_us, err);
    ddp_assert(c == NULL || (c->rank == d->rank && c->world == d->world));
    /* 0 is none, and so is what a clock cannot count. */
    if (c != NULL && opts->timeout_ms > 0 &&
        opts->timeout_ms < INT64_MAX / MONO_MS)
        c->timeout_us = opts->timeout_ms * MONO_MS;
    if (c != NULL)
        proof_join(&d->proof, &c->proof);
    return c;
}

struct ddp_comm *ddp_comm_new(struct ddp *d,
                              const struct ddp_comm_opts *opts,
                              struct ddp_error *err)
{
    struct ddp_comm_opts full = {.kind = DDP_COMM_CPU};
    struct ddp_err why;
    struct ddp_comm *c = NULL;
    if (opts == NULL ||
        abi_take(&full, sizeof(full), opts, ABI_COMM_OPTS_MIN, &why) == 0)
        c = make(d, &full, &why);
    if (c == NULL)
        (void)rt_fail(err, &why);
    return c;
}

/* Lengths of up to half of the address space: then no sum of a length and a
 * header overflows below. Elements are aligned, since they are added in place.
 */
static int check_sum(const void *data,
                     size_t count,
                     enum ddp_dtype dtype,
                     struct ddp_err *err)
{
    if (dtype != DDP_F32 && dtype != DDP_F64 && dtype != DDP_I64)
        return ddp_err_set(err, DDP_E_USAGE,
                           "all-reduce: dtype %d cannot be summed, only F32, "
                           "F64 and I64 can",
                           (int)dtype);
    size_t size = dtype == DDP_F32 ? 4 : 8;
    if (count > SIZE_MAX / 2 / size || (count > 0 && data == NULL) ||
        (uintptr_t)data % size != 0)
        return ddp_err_set(err, DDP_E_USAGE,
                           "all-reduce: the buffer is NULL, not aligned or too "
                           "long: count %zu, address %p",
                           count, data);
    return 0;
}

int ddp_comm_allreduce(struct ddp_comm *c,
                       void *data,
                       size_t count,
                       enum ddp_dtype dtype,
                       struct ddp_error *err)
{
    struct ddp_err why;
    if (check_sum(data, count, dtype, &why) == 0 &&
        c->ops->allreduce(c, data, count, dtype, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_comm_broadcast(
    struct ddp_comm *c, void *data, size_t len, int root, struct ddp_error *err)
{
    struct ddp_err why;
    if (root < 0 || root >= c->world || len > SIZE_MAX / 2 ||
        (len > 0 && data == NULL))
        (void)ddp_err_set(
            &why, DDP_E_USAGE,
            "broadcast: the buffer is NULL or too long, or there is no such "
            "root: %zu bytes at %p, root %d, world size %d",
            len, data, root, c->world);
    else if (c->ops->broadcast(c, data, len, root, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_comm_allgather(struct ddp_comm *c,
                       const void *mine,
                       size_t len,
                       void *all,
                       struct ddp_error *err)
{
    struct ddp_err why;
    if (len > SIZE_MAX / 2 / (size_t)c->world ||
        (len > 0 && (mine == NULL || all == NULL)))
        (void)ddp_err_set(&why, DDP_E_USAGE,
                          "all-gather: a buffer is NULL or too long: %zu bytes "
                          "for each rank, from %p to %p",
                          len, mine, all);
    else if (c->ops->allgather(c, mine, len, all, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

int ddp_comm_barrier(struct ddp_comm *c, struct ddp_error *err)
{
    struct ddp_err why;
    if (c->ops->barrier(c, &why) == 0)
        return 0;
    return rt_fail(err, &why);
}

/* Only NCCL has something that goes on after a call returned. */
int ddp_comm_wait(struct ddp_comm *c, struct ddp_error *err)
{
    struct ddp_err why;
    if (c->ops->wait == NULL || c->ops->wait(c, &why) == 0)
        return 0;
    return rt_fail(err, &why);
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
