#include "tests/lib/fake_nccl.h"

#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/fake_cuda.h"
#include "worker_rt/comm/reduce.h"

#define DATA_MAX ((size_t)1 << 20) /* of one rank in one collective */
#define RANKS    16

/* The file: all ranks see it. */
struct hall {
    atomic_int here;
    atomic_llong ready; /* ranks that have put their part, over all ops */
    atomic_llong done;  /* that have taken the result */
    uint8_t part[RANKS][DATA_MAX];
};

struct ncclComm {
    struct ncclComm *next; /* in `comms` */
    struct hall *hall;
    int rank;
    int world;
    int ops;   /* collectives so far */
    int polls; /* for which something is still in progress */
    ncclResult_t error;
    bool started;
};

static struct fake_nccl knobs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `comms` */
static struct ncclComm *comms;
static __thread struct {
    int depth;
    size_t n;
    ncclComm_t ended[64];
} group; /* of aborts */

struct fake_nccl *fake_nccl(void)
{
    return &knobs;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = knobs.version != 0 ? knobs.version : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t rc)
{
    return rc == ncclRemoteError ? "remote process exited"
                                 : "unhandled system error";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "line one\nline two";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int made;
    knobs.ids++;
    if (knobs.no_id)
        return ncclSystemError;
    memset(id, 0, sizeof(*id));
    (void)snprintf(id->internal, sizeof(id->internal),
                   "/dev/shm/fake-nccl-%d-%d", (int)getpid(), made++);
    int fd = open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(struct hall)) != 0)
        return ncclSystemError;
    (void)close(fd);
    return ncclSuccess;
}

/* All ids name a file; the first is the one to meet in. */
static ncclResult_t
join(ncclComm_t *comm, int world, ncclUniqueId *ids, int n, int rank)
{
    int fd = open(ids[0].internal, O_RDWR);
    struct hall *hall = fd < 0
                            ? MAP_FAILED
                            : mmap(NULL, sizeof(*hall), PROT_READ | PROT_WRITE,
                                   MAP_SHARED, fd, 0);
    struct ncclComm *c = calloc(1, sizeof(*c));
    if (hall == MAP_FAILED || c == NULL || world > RANKS)
        return ncclSystemError;
    (void)close(fd);
    knobs.ids_given = n;
    *c = (struct ncclComm){.hall = hall, .rank = rank, .world = world};
    (void)pthread_mutex_lock(&lock);
    c->next = comms;
    comms = c;
    (void)pthread_mutex_unlock(&lock);
    if (knobs.peer != NULL)
        atomic_store(&hall->here, world);
    if (knobs.peer != NULL || atomic_fetch_add(&hall->here, 1) == world - 1)
        for (int i = 0; i < n; i++)
            (void)unlink(ids[i].internal);
    *comm = c;
    return ncclInProgress;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm,
                                    int world,
                                    ncclUniqueId id,
                                    int rank,
                                    ncclConfig_t *config)
{
    return ncclCommInitRankScalable(comm, world, rank, 1, &id, config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm,
                                      int world,
                                      int rank,
                                      int n,
                                      ncclUniqueId *ids,
                                      ncclConfig_t *config)
{
    knobs.wrong_blocking = config->blocking != 0;
    ncclResult_t rc = join(comm, world, ids, n, rank);
    while (config->blocking == 1 && rc == ncclInProgress) {
        ncclResult_t error = ncclSuccess;
        (void)ncclCommGetAsyncError(*comm, &error); /* cannot fail */
        rc = error;
        (void)usleep(100);
    }
    return rc;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = comm->error;
    if (comm->error == ncclSuccess && !comm->started) {
        bool all = atomic_load(&comm->hall->here) >= comm->world;
        if (knobs.start_fails)
            *error = comm->error = ncclSystemError;
        else if (!all || knobs.never_starts)
            *error = ncclInProgress;
        else
            comm->started = true;
    } else if (comm->error == ncclSuccess && comm->polls > 0) {
        comm->polls--;
        *error = ncclInProgress;
    }
    return ncclSuccess;
}

/* -- collectives ----------------------------------------------------------- */

struct work {
    struct ncclComm *comm;
    long long number; /* from 0 */
    bool put;
    const void *from;
    void *to;
    size_t len;   /* of a rank's part */
    size_t count; /* its elements */
    enum ddp_dtype dtype;
    enum ddp_op op;
    enum {
        SUM,
        SCATTER,
        COPY,
        GATHER
    } kind;
    int root;
    long long begun_us; /* by the device; 0: not yet */
};

/* NCCL's types and operations, and what libddp calls them. */
static const enum ddp_dtype dtypes[] = {
    [ncclInt8] = DDP_I8,
    [ncclUint8] = DDP_U8,
    [ncclInt32] = DDP_I32,
    [ncclUint32] = DDP_U32,
    [ncclInt64] = DDP_I64,
    [ncclUint64] = DDP_U64,
    [ncclFloat16] = DDP_F16,
    [ncclFloat32] = DDP_F32,
    [ncclFloat64] = DDP_F64,
    [ncclBfloat16] = DDP_BF16,
#if NCCL_VERSION_CODE >= 22400
    [ncclFloat8e4m3] = DDP_F8_E4M3,
    [ncclFloat8e5m2] = DDP_F8_E5M2,
#endif
};
static const enum ddp_op ops[] = {
    [ncclSum] = DDP_SUM, [ncclAvg] = DDP_AVG,   [ncclMax] = DDP_MAX,
    [ncclMin] = DDP_MIN, [ncclProd] = DDP_PROD,
};

/* Combines that piece of all parts which is this rank's. */
static void combine(const struct work *w, size_t at)
{
    const struct hall *h = w->comm->hall;
    void *to = fake_shadow(w->to);
    size_t size = ddp_dtype_size(w->dtype), len = w->count * size;
    memcpy(to, h->part[0] + at, len);
    for (int r = 1; r < w->comm->world; r++)
        reduce_find(w->dtype, w->op)(to, to, h->part[r] + at, w->count);
    if (w->op == DDP_AVG)
        reduce_divide(w->dtype, to, w->count, w->comm->world);
}

static void take(const struct work *w)
{
    const struct hall *h = w->comm->hall;
    if (w->kind == COPY)
        memcpy(fake_shadow(w->to), h->part[w->root], w->len);
    if (w->kind == SUM)
        combine(w, 0);
    if (w->kind == SCATTER)
        combine(w, (size_t)w->comm->rank * w->len / (size_t)w->comm->world);
    for (int r = 0; w->kind == GATHER && r < w->comm->world; r++)
        memcpy((uint8_t *)fake_shadow(w->to) + (size_t)r * w->len, h->part[r],
               w->len);
}

static bool is_busy(struct work *w)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
    long long now_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    if (w->begun_us == 0)
        w->begun_us = now_us;
    return now_us - w->begun_us < knobs.busy_us;
}

static bool work(void *arg)
{
    struct work *w = arg;
    struct hall *h = w->comm->hall;
    long long world = w->comm->world;
    if (knobs.busy_us > 0 && is_busy(w))
        return false;
    if (!w->put && atomic_load(&h->done) < world * w->number)
        return false; /* somebody still reads the last one's parts */
    if (!w->put) {
        memcpy(h->part[w->comm->rank], fake_shadow(w->from), w->len);
        w->put = true;
        atomic_fetch_add(&h->ready, 1);
    }
    if (knobs.peer != NULL) {
        for (int r = 0; r < w->comm->world; r++)
            if (r != w->comm->rank &&
                !knobs.peer(r, w->number, h->part[r], w->len))
                return false;
        atomic_fetch_add(&h->ready, world - 1);
        atomic_fetch_add(&h->done, world - 1);
    }
    if (atomic_load(&h->ready) < world * (w->number + 1))
        return false;
    take(w);
    atomic_fetch_add(&h->done, 1);
    return true;
}

static ncclResult_t push(struct work *w, cudaStream_t stream)
{
    struct ncclComm *c = w->comm;
    int given = (int)w->number + 1;
    fake_stream_push(stream, work, w);
    if (knobs.error_at == given) {
        w->number = 1000000; /* it never comes to that */
        c->error = ncclRemoteError;
    }
    if (knobs.slow_at != given)
        return ncclSuccess;
    c->polls = 5;
    return ncclInProgress;
}

static void note(const char *name, size_t count, int type, int op)
{
    struct fake_nccl_call call = {name, count, type, op};
    if (knobs.calls < FAKE_NCCL_CALLS)
        knobs.call[knobs.calls] = call;
    knobs.calls++;
}

static ncclResult_t
give(struct work todo, ncclDataType_t type, cudaStream_t stream)
{
    struct ncclComm *c = todo.comm;
    struct work *w = malloc(sizeof(*w));
    todo.dtype = dtypes[type];
    todo.len = todo.count * ddp_dtype_size(todo.dtype);
    if (todo.kind == SCATTER)
        todo.len *= (size_t)c->world;
    if (w == NULL || todo.len > DATA_MAX || !c->started || group.depth > 0) {
        free(w);
        return ncclInvalidUsage;
    }
    todo.number = c->ops++;
    *w = todo;
    return push(w, stream);
}

static ncclResult_t give_sum(const char *name,
                             struct work w,
                             ncclDataType_t type,
                             ncclRedOp_t op,
                             cudaStream_t stream)
{
    note(name, w.count, (int)type, (int)op);
    w.op = ops[op];
    return give(w, type, stream);
}

ncclResult_t ncclAllReduce(const void *from,
                           void *to,
                           size_t count,
                           ncclDataType_t type,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream)
{
    const struct work w = {
        .comm = comm, .from = from, .to = to, .count = count, .kind = SUM};
    return give_sum("AllReduce", w, type, op, stream);
}

ncclResult_t ncclReduceScatter(const void *from,
                               void *to,
                               size_t count,
                               ncclDataType_t type,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream)
{
    const struct work w = {
        .comm = comm, .from = from, .to = to, .count = count, .kind = SCATTER};
    return give_sum("ReduceScatter", w, type, op, stream);
}

ncclResult_t ncclBroadcast(const void *from,
                           void *to,
                           size_t count,
                           ncclDataType_t type,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream)
{
    struct work w = {.comm = comm, .from = from, .to = to, .kind = COPY};
    note("Broadcast", count, (int)type, -1);
    w.count = count;
    w.root = root;
    return give(w, type, stream);
}

ncclResult_t ncclAllGather(const void *from,
                           void *to,
                           size_t count,
                           ncclDataType_t type,
                           ncclComm_t comm,
                           cudaStream_t stream)
{
    struct work w = {.comm = comm, .from = from, .to = to, .kind = GATHER};
    note("AllGather", count, (int)type, -1);
    w.count = count;
    return give(w, type, stream);
}

/* -- the end --------------------------------------------------------------- */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->polls = 3;
    return ncclInProgress;
}

static bool is_of(const void *arg, const void *comm)
{
    const struct work *w = arg;
    return w->comm == comm;
}

static void forget(ncclComm_t comm)
{
    struct ncclComm **at = &comms;
    (void)pthread_mutex_lock(&lock);
    while (*at != comm)
        at = &(*at)->next;
    *at = comm->next;
    (void)pthread_mutex_unlock(&lock);
    (void)munmap(comm->hall, sizeof(*comm->hall));
    free(comm);
}

/* Waits until the device is idle, as the real one does: behind a collective of
 * another communicator that waits for a peer that may be for ever. */
static void reclaim(ncclComm_t comm)
{
    bool stuck = true;
    while (knobs.abort_blocks || knobs.abort_stuck)
        (void)usleep(1000);
    while (stuck) {
        stuck = false;
        (void)pthread_mutex_lock(&lock);
        for (const struct ncclComm *c = comms; c != NULL; c = c->next)
            stuck = stuck || fake_stream_count(work, is_of, c) > 0;
        (void)pthread_mutex_unlock(&lock);
        if (stuck)
            (void)usleep(1000);
    }
    forget(comm);
}

/* nccl.h declares these two without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupEnd(void)
{
    if (--group.depth > 0)
        return ncclSuccess;
    for (size_t i = 0; i < group.n; i++)
        reclaim(group.ended[i]);
    group.n = 0;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    knobs.destroys++;
    (void)fake_stream_drop(work, is_of, comm);
    forget(comm);
    return ncclSuccess;
}

/* Its kernels end at once, as if they had done their work. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    knobs.aborts++;
    knobs.in_abort++;
    if (!knobs.abort_stuck)
        (void)fake_stream_drop(work, is_of, comm);
    (void)ncclGroupStart();
    group.ended[group.n++] = comm;
    ncclResult_t rc = ncclGroupEnd();
    knobs.in_abort--;
    return rc;
}
