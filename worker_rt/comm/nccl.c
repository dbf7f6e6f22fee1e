/*
 * worker_rt/comm/nccl: the order of things.
 *
 *     control meets ─► ids over the control ─► NCCL starts, not blocking
 *     a collective: begin on the control ─► NCCL enqueues ─► poll the stream,
 *     NCCL's own errors and the control ─► end on the control
 *
 * No call blocks inside of NCCL or CUDA; comm/nccl_wait waits for both.
 *
 * Failure modes: no driver, no NCCL, one that is too old (CONFIG, before any
 * rank waits); NCCL or the GPU fails here (IO); a peer fails (PEER, with the
 * words of the control). In each of them `comm` is aborted and NULL from then
 * on.
 */
#include "worker_rt/comm/nccl.h"

#include <stdlib.h>

#include "rendezvous/base/mono.h"

int comm_nccl_ranks_per_id = 128;

#ifndef DDP_NCCL /* the Makefile found no nccl.h */

struct ddp_comm *comm_nccl_new(const struct comm_place *place,
                               struct store_client *store,
                               const struct ddp_comm_opts *opts,
                               int64_t deadline_us,
                               struct ddp_err *err)
{
    (void)place, (void)store, (void)opts, (void)deadline_us;
    (void)ddp_err_set(err, DDP_E_CONFIG,
                      "libddp was built without NCCL, since nccl.h was not "
                      "found: run 'scripts/setup.sh --cuda' and build it "
                      "again");
    return NULL;
}

#else

#include "worker_rt/comm/head.h"
#include "worker_rt/comm/nccl_wait.h"

#define LEAVE_US (1 * MONO_S)
#define IDS_MAX  1024

/* -- types and operations -------------------------------------------------- */

/* Of a dtype that is only moved: without one here, as bytes. */
static const struct {
    bool known;
    ncclDataType_t type;
} types[] = {
    [DDP_F64] = {true, ncclFloat64},
    [DDP_F32] = {true, ncclFloat32},
    [DDP_F16] = {true, ncclFloat16},
    [DDP_BF16] = {true, ncclBfloat16},
    [DDP_I64] = {true, ncclInt64},
    [DDP_I32] = {true, ncclInt32},
    [DDP_I16] = {false, ncclUint8},
    [DDP_I8] = {true, ncclInt8},
    [DDP_U8] = {true, ncclUint8},
    [DDP_BOOL] = {false, ncclUint8},
    [DDP_U64] = {true, ncclUint64},
    [DDP_U32] = {true, ncclUint32},
    [DDP_U16] = {false, ncclUint8},
#if NCCL_VERSION_CODE >= 22400
    [DDP_F8_E4M3] = {true, ncclFloat8e4m3},
    [DDP_F8_E5M2] = {true, ncclFloat8e5m2},
#endif
};

static const ncclRedOp_t operations[] = {
    [DDP_SUM] = ncclSum, [DDP_AVG] = ncclAvg,   [DDP_MAX] = ncclMax,
    [DDP_MIN] = ncclMin, [DDP_PROD] = ncclProd,
};

static bool is_known(enum ddp_dtype dtype)
{
    return (size_t)dtype < sizeof(types) / sizeof(types[0]) &&
           types[dtype].known;
}

/* F8 came with NCCL 2.24. */
static int check_type(const struct comm_nccl *c,
                      const struct comm_call *call,
                      struct ddp_err *err)
{
    int version = 0;
    bool combines =
        call->kind == WIRE_ALLREDUCE || call->kind == WIRE_REDUCE_SCATTER;
    bool small = call->dtype == DDP_F8_E4M3 || call->dtype == DDP_F8_E5M2;
    if (!combines || !small || c->nccl == NULL)
        return 0;
    (void)c->nccl->GetVersion(&version); /* 0 if it fails */
    if (version >= 22400 && is_known(call->dtype))
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "%s: NCCL can combine F8 from version 2.24 on",
                       head_kind_name(call->kind));
}

/* -- giving it to NCCL ----------------------------------------------------- */

/* Under the lock. */
static ncclResult_t give(const struct comm_nccl *c,
                         const struct comm_call *call)
{
    const struct nccl_lib *nccl = c->nccl;
    bool known = is_known(call->dtype);
    size_t n = known ? call->count : comm_call_len(call);
    ncclDataType_t type = known ? types[call->dtype].type : ncclUint8;
    switch (call->kind) {
    case WIRE_ALLREDUCE:
        return nccl->AllReduce(call->in, call->out, n, type,
                               operations[call->op], c->comm, c->stream);
    case WIRE_REDUCE_SCATTER:
        return nccl->ReduceScatter(call->in, call->out, n, type,
                                   operations[call->op], c->comm, c->stream);
    case WIRE_BROADCAST:
        return nccl->Broadcast(call->in, call->out, n, type, call->root,
                               c->comm, c->stream);
    case WIRE_ALLGATHER:
        return nccl->AllGather(call->in, call->out, n, type, c->comm,
                               c->stream);
    case WIRE_BARRIER:
    case WIRE_LEAVE:
    case WIRE_START:
    case WIRE_WAIT:
    case WIRE_KINDS:
        break;
    }
    DDP_WRONG("no collective that moves data");
}

/* Alone: what this rank gives is all that there is. */
static int give_self(struct comm_nccl *c,
                     const struct comm_call *call,
                     struct ddp_err *err)
{
    const char *what = head_kind_name(call->kind);
    if (call->in == call->out)
        return nccl_end(c, 0, err);
    int rc = c->gpu->copy(gpu_addr(call->out), gpu_addr(call->in),
                          comm_call_len(call), c->stream);
    if (rc != 0)
        (void)ddp_err_set(err, DDP_E_IO, "%s: the GPU failed: %s", what,
                          gpu_text(c->gpu, rc));
    nccl_note(c);
    if (rc == 0 && !c->async)
        return nccl_end(c, nccl_drain(c, what, err), err);
    return nccl_end(c, rc == 0 ? 0 : -1, err);
}

/* -- where the data lies --------------------------------------------------- */

/* If the driver cannot tell, the communicator fails as by any other failure of
 * the GPU. */
static enum gpu_place where(struct comm_nccl *c,
                            enum wire_kind kind,
                            const void *data,
                            struct ddp_err *err)
{
    const struct comm_call call = {.kind = kind};
    struct ddp_err older;
    enum gpu_place place = gpu_where(c->gpu, data, err);
    if (place != GPU_UNKNOWN)
        return place;
    if (nccl_begin(c, &call, &older) != 0)
        *err = older;
    (void)nccl_end(c, -1, err);
    return GPU_UNKNOWN;
}

/* Where both buffers lie; GPU_UNKNOWN: an error, the driver's or USAGE (not
 * alike). Nothing lies in no memory: it counts as the host's. */
static enum gpu_place where_both(struct comm_nccl *c,
                                 const struct comm_call *call,
                                 struct ddp_err *err)
{
    if (comm_call_len(call) == 0)
        return GPU_HOST;
    enum gpu_place in = where(c, call->kind, call->in, err);
    if (in == GPU_UNKNOWN || call->out == call->in)
        return in;
    enum gpu_place out = where(c, call->kind, call->out, err);
    if (out == GPU_UNKNOWN || out == in)
        return out;
    (void)ddp_err_set(err, DDP_E_USAGE,
                      "%s: one buffer lies in GPU memory, the other one does "
                      "not",
                      head_kind_name(call->kind));
    return GPU_UNKNOWN;
}

static int controlled(struct comm_nccl *c, int rc, struct ddp_err *err)
{
    return rc == 0 ? 0 : nccl_end(c, rc, err);
}

/* -- the calls ------------------------------------------------------------- */

static int nccl_call(struct ddp_comm *comm,
                     const struct comm_call *call,
                     struct ddp_err *err)
{
    struct comm_nccl *c = nccl_self(comm);
    struct ddp_comm *k = nccl_control(c);
    enum gpu_place at = where_both(c, call, err);
    if (at == GPU_UNKNOWN)
        return -1;
    if (at == GPU_HOST)
        return controlled(c, k->ops->call(k, call, err), err);
    if (check_type(c, call, err) != 0)
        return -1;
    if (nccl_begin(c, call, err) != 0)
        return nccl_end(c, -1, err);
    if (comm->world == 1)
        return give_self(c, call, err);
    if (nccl_lock(c, err) != 0)
        return nccl_end(c, -1, err);
    const char *what = head_kind_name(call->kind);
    ncclResult_t answer = give(c, call);
    nccl_unlock();
    nccl_note(c);
    int rc = nccl_settle(c, answer, what, err);
    if (rc == 0 && !c->async)
        rc = nccl_drain(c, what, err);
    return nccl_end(c, rc, err);
}

/* The program enqueues something itself: that is waited for, and snapshots rest
 * on it, whether this communicator waits or not. */
static void *nccl_raw(struct ddp_comm *comm)
{
    struct comm_nccl *c = nccl_self(comm);
    nccl_lock_any();
    ncclComm_t raw = c->comm;
    nccl_unlock();
    if (raw == NULL)
        return NULL;
    c->pending = true;
    proof_draw(&c->base.proof);
    return raw;
}

static int nccl_wait(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_nccl *c = nccl_self(comm);
    if (nccl_attend(c, err) != 0 || wire_watch(c->wire, err) != 0)
        return nccl_end(c, -1, err);
    return nccl_end(c, c->pending ? nccl_drain(c, "wait", err) : 0, err);
}

/* -- what a snapshot rests on ---------------------------------------------- */

static struct comm_nccl *of_part(struct proof_part *part)
{
    return (struct comm_nccl *)(void *)((uint8_t *)part -
                                        offsetof(struct comm_nccl, base.proof));
}

/* Until the ticket is proven, or the communicator has failed: the program hears
 * of that by its next call. */
static void nccl_prove(struct proof_part *part, uint64_t mark)
{
    struct comm_nccl *c = of_part(part);
    struct ddp_err why;
    bool by_event = c->marked >= mark;
    uint64_t upto = by_event ? c->marked : part->newest;
    int rc = nccl_attend(c, &why);
    if (rc == 0)
        rc = nccl_poll(c, by_event ? c->event : NULL, "save", &why);
    if (rc == 0) {
        c->marked = 0;
        proof_done(part, upto);
    }
    (void)nccl_end(c, rc, &why);
}

/* One event: what was marked before must be proven first. */
static void nccl_mark(struct proof_part *part, uint64_t mark)
{
    struct comm_nccl *c = of_part(part);
    struct ddp_err why;
    if (c->marked != 0)
        nccl_prove(part, c->marked);
    if (part->oldest == 0)
        return; /* it failed, or it is proven */
    int rc = 0;
    if (c->event == NULL)
        rc = c->gpu->event_create(&c->event, GPU_NO_TIMING);
    if (rc == 0)
        rc = c->gpu->event_record(c->event, c->stream);
    if (rc == 0) {
        c->marked = mark;
        return;
    }
    if (nccl_attend(c, &why) == 0)
        (void)ddp_err_set(&why, DDP_E_IO, "save: the GPU failed: %s",
                          gpu_text(c->gpu, rc));
    (void)nccl_end(c, -1, &why);
}

/* What this rank has enqueued is done, then all have come. */
static int nccl_barrier(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_nccl *c = nccl_self(comm);
    if (nccl_wait(comm, err) != 0)
        return -1;
    struct ddp_comm *k = nccl_control(c);
    return controlled(c, k->ops->barrier(k, err), err);
}

/* The call that polls sees it; from here NCCL may not be touched. */
static void nccl_abort(struct ddp_comm *comm)
{
    wire_abort(nccl_self(comm)->wire);
}

/* -- the end --------------------------------------------------------------- */

/* Whatever goes wrong here, the work is done. */
static void nccl_leave(struct ddp_comm *comm)
{
    struct comm_nccl *c = nccl_self(comm);
    struct ddp_err ignored;
    c->base.timeout_us = LEAVE_US;
    const struct comm_call call = {.kind = WIRE_LEAVE};
    if (nccl_begin(c, &call, &ignored) != 0) {
        (void)nccl_end(c, -1, &ignored);
        return;
    }
    int rc = c->pending ? nccl_drain(c, "leave", &ignored) : 0;
    if (rc == 0 && comm->world > 1 && (rc = nccl_lock(c, &ignored)) == 0) {
        ncclResult_t answer = c->nccl->CommFinalize(c->comm);
        nccl_unlock();
        rc = nccl_settle(c, answer, "leave", &ignored);
    }
    if (nccl_end(c, rc, &ignored) != 0)
        return;
    nccl_lock_any();
    if (c->comm != NULL)
        (void)c->nccl->CommDestroy(c->comm); /* frees what it can */
    c->comm = NULL;
    nccl_unlock();
    c->control->ops->leave(c->control);
}

static void nccl_del(struct ddp_comm *comm)
{
    struct comm_nccl *c = nccl_self(comm);
    nccl_forget(c);
    if (c->event != NULL)
        (void)c->gpu->event_destroy(c->event);
    if (c->control != NULL)
        c->control->ops->del(c->control);
    free(c);
}

static const struct comm_ops nccl_ops = {
    .call = nccl_call,
    .barrier = nccl_barrier,
    .wait = nccl_wait,
    .nccl = nccl_raw,
    .abort = nccl_abort,
    .leave = nccl_leave,
    .del = nccl_del,
};

/* -- making one ------------------------------------------------------------ */

static const struct comm_call starting = {.kind = WIRE_START};

static int64_t left_us(int64_t deadline_us)
{
    if (deadline_us == MONO_NEVER)
        return MONO_NEVER;
    int64_t left = deadline_us - mono_now_us();
    return left > 1 ? left : 1;
}

/*
 * An id is a listening socket and a thread in the process that makes it. So no
 * more ids are made than needed: the i-th by rank i * world / n.
 */
static int share_ids(struct comm_nccl *c,
                     ncclUniqueId *ids,
                     int n,
                     int64_t deadline_us,
                     struct ddp_err *err)
{
    struct ddp_comm *k = c->control;
    for (int i = 0; i < n; i++) {
        int root = (int)((int64_t)i * c->base.world / n);
        ddp_assert(root < c->base.world);
        ncclResult_t rc = ncclSuccess;
        k->timeout_us = c->base.timeout_us = left_us(deadline_us);
        if (root == c->base.rank)
            rc = c->nccl->GetUniqueId(&ids[i]);
        if (rc != ncclSuccess) {
            if (nccl_begin(c, &starting, err) == 0)
                (void)nccl_failed(c, rc, "start of NCCL", err);
            return nccl_end(c, -1, err);
        }
        if (comm_broadcast(k, &ids[i], sizeof(ids[i]), root, err) != 0)
            return -1;
    }
    return 0;
}

static int start(struct comm_nccl *c,
                 ncclUniqueId *ids,
                 int n,
                 int64_t deadline_us,
                 struct ddp_err *err)
{
    static const char what[] = "start of NCCL";
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    int rank = c->base.rank, world = c->base.world;
    c->base.timeout_us = left_us(deadline_us);
    if (nccl_begin(c, &starting, err) != 0)
        return nccl_end(c, -1, err);
    nccl_lock_any();
    ncclResult_t rc = n == 1
                          ? c->nccl->CommInitRankConfig(&c->comm, world, ids[0],
                                                        rank, &config)
                          : c->nccl->CommInitRankScalable(&c->comm, world, rank,
                                                          n, ids, &config);
    nccl_register(c);
    nccl_unlock();
    if (nccl_end(c, nccl_settle(c, rc, what, err), err) != 0)
        return -1;
    /* It may have started here and failed elsewhere. */
    struct ddp_comm *k = c->control;
    k->timeout_us = left_us(deadline_us);
    return controlled(c, k->ops->barrier(k, err), err);
}

static int
open_nccl(struct comm_nccl *c, int64_t deadline_us, struct ddp_err *err)
{
    int each = comm_nccl_ranks_per_id;
    int n = (c->base.world + each - 1) / each;
    if (c->base.world == 1)
        return 0;
    n = n > IDS_MAX ? IDS_MAX : n;
    ddp_assert(n >= 1);
    ncclUniqueId *ids = calloc((size_t)n, sizeof(*ids));
    if (ids == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
    int rc = share_ids(c, ids, n, deadline_us, err);
    if (rc == 0)
        rc = start(c, ids, n, deadline_us, err);
    free(ids);
    return rc;
}

static int open_all(struct comm_nccl *c,
                    const struct comm_place *place,
                    struct store_client *store,
                    int64_t deadline_us,
                    struct ddp_err *err)
{
    c->gpu = gpu_load(err);
    if (c->gpu == NULL || gpu_context(c->gpu, err) == NULL)
        return -1;
    if (place->world > 1 && (c->nccl = nccl_lib_load(err)) == NULL)
        return -1;
    c->control = comm_cpu_new(place, store, deadline_us, err);
    if (c->control == NULL)
        return -1;
    c->wire = comm_cpu_wire(c->control);
    return open_nccl(c, deadline_us, err);
}

struct ddp_comm *comm_nccl_new(const struct comm_place *place,
                               struct store_client *store,
                               const struct ddp_comm_opts *opts,
                               int64_t deadline_us,
                               struct ddp_err *err)
{
    struct comm_nccl *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a communicator");
        return NULL;
    }
    c->base = (struct ddp_comm){
        .ops = &nccl_ops, .rank = place->rank, .world = place->world};
    c->base.proof.mark = nccl_mark;
    c->base.proof.prove = nccl_prove;
    c->stream = opts->stream;
    c->async = opts->async;
    int rc = open_all(c, place, store, deadline_us, err);
    c->base.timeout_us = MONO_NEVER;
    if (rc == 0)
        return &c->base;
    nccl_del(&c->base);
    return NULL;
}

#endif
