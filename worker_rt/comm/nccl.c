/*
 * worker_rt/comm/nccl: the order of things.
 *
 *     control meets ─► ids over the control ─► NCCL starts, not blocking
 *     a collective: begin on the control ─► NCCL enqueues ─► poll the stream,
 *     NCCL's own errors and the control ─► end on the control
 *
 * No call blocks inside of NCCL or CUDA. Whatever goes wrong, the peers are
 * told first over the control, then NCCL is aborted, which ends its kernels:
 * with a dead peer they would spin for ever. NCCL often finds a peer's sockets
 * closed before the control does, but only the control knows whose fault it
 * was; so it is given BLAME_US to say so.
 *
 * Failure modes: no driver, no NCCL, one that is too old (CONFIG, before any
 * rank waits); NCCL or the GPU fails here (IO); a peer fails (PEER, with the
 * words of the control). In each of them `comm` is aborted and NULL from then
 * on.
 */
#include "worker_rt/comm/nccl.h"

#include <stdlib.h>

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

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rendezvous/base/mono.h"
#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/gpu.h"

#define SPIN_US  (50)          /* most collectives are done by then */
#define WATCH_US (1 * MONO_MS) /* how often the control is looked at */
/* For the control to know whose fault it is. */
#define BLAME_US (100 * MONO_MS)
#define LEAVE_US (1 * MONO_S)
#define NAP_NS   (20 * 1000)
#define IDS_MAX  1024

/* -- the library ----------------------------------------------------------- */

#define NCCL_FUNCTIONS(X)                                                      \
    X(GetVersion)                                                              \
    X(GetUniqueId)                                                             \
    X(CommInitRankConfig)                                                      \
    X(CommInitRankScalable)                                                    \
    X(CommGetAsyncError)                                                       \
    X(CommFinalize)                                                            \
    X(CommDestroy)                                                             \
    X(CommAbort)                                                               \
    X(GetErrorString)                                                          \
    X(GetLastError)                                                            \
    X(AllReduce)                                                               \
    X(Broadcast)                                                               \
    X(AllGather)

/* Each has the type that nccl.h declares. */
static struct {
#define X(name) __typeof__(nccl##name) *name;
    NCCL_FUNCTIONS(X)
#undef X
} nccl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;
static struct ddp_err why_not;

static bool find(void *lib, const char *name, void *function)
{
    void *found = dlsym(lib, name);
    memcpy(function, &found, sizeof(found)); /* POSIX lets this be done */
    if (found == NULL)
        (void)ddp_err_set(&why_not, DDP_E_CONFIG,
                          "NCCL is too old (it has no %s): 2.23 or newer is "
                          "needed",
                          name);
    return found != NULL;
}

static void load(void)
{
    const char *path = getenv("DDP_NCCL_LIBRARY");
    if (path == NULL || path[0] == '\0')
        path = "libnccl.so.2";
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        (void)ddp_err_set(&why_not, DDP_E_CONFIG,
                          "cannot load NCCL (%.200s): put its folder into "
                          "LD_LIBRARY_PATH, or the file's name into "
                          "DDP_NCCL_LIBRARY",
                          dlerror());
        return;
    }
    loaded = true;
#define X(name) loaded = loaded && find(lib, "nccl" #name, &nccl.name);
    NCCL_FUNCTIONS(X)
#undef X
}

static int load_nccl(struct ddp_err *err)
{
    (void)pthread_once(&once, load); /* cannot fail on a valid control */
    if (!loaded)
        *err = why_not;
    return loaded ? 0 : -1;
}

/* -- a communicator -------------------------------------------------------- */

struct comm_nccl {
    struct ddp_comm base;
    struct ddp_comm *control;
    struct wire *wire; /* of the control */
    const struct gpu_driver *gpu;
    ncclComm_t comm; /* NULL: alone, not started, or aborted */
    void *stream;
    bool async;
    bool pending; /* something was enqueued and not waited for */
};

static struct comm_nccl *self(struct ddp_comm *c)
{
    return (struct comm_nccl *)c; /* its first member */
}

/* What went wrong in NCCL, on one line. */
static int nccl_failed(struct comm_nccl *c,
                       ncclResult_t rc,
                       const char *what,
                       struct ddp_err *err)
{
    enum ddp_code code = rc == ncclRemoteError ? DDP_E_PEER : DDP_E_IO;
    char last[160];
    const char *text = nccl.GetLastError(c->comm);
    (void)snprintf(last, sizeof(last), "%s", text == NULL ? "" : text);
    for (char *p = last; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return ddp_err_set(err, code, "%s: NCCL: %s%s%s", what,
                       nccl.GetErrorString(rc), last[0] == '\0' ? "" : ": ",
                       last);
}

static void nap(void)
{
    const struct timespec t = {.tv_nsec = NAP_NS};
    (void)nanosleep(&t, NULL); /* a signal may cut it short */
}

/* Whether the control knows better whose fault it is: then `err` is replaced.
 */
static void ask_control(struct comm_nccl *c, struct ddp_err *err)
{
    struct ddp_err better;
    int64_t until_us = mono_now_us() + BLAME_US;
    while (mono_now_us() < until_us) {
        if (wire_watch(c->wire, &better) != 0) {
            *err = better;
            return;
        }
        nap();
    }
}

/* Ends what was begun on the control. A failure of any kind ends NCCL too. */
static int end(struct comm_nccl *c, int rc, const struct ddp_err *err)
{
    rc = wire_end(c->wire, rc, err);
    if (rc != 0 && c->comm != NULL) {
        (void)nccl.CommAbort(c->comm); /* nothing more can be done about it */
        c->comm = NULL;
    }
    return rc;
}

/* When to look at what, while polling. */
struct patience {
    int64_t start_us;
    int64_t watch_us; /* when the control is looked at next */
};

static struct patience patience_new(void)
{
    int64_t now_us = mono_now_us();
    return (struct patience){now_us, now_us + WATCH_US};
}

/* Between two looks at the GPU. */
static int
wait_a_little(struct comm_nccl *c, struct patience *p, struct ddp_err *err)
{
    int64_t now_us = mono_now_us();
    if (now_us >= p->watch_us) {
        p->watch_us = now_us + WATCH_US;
        if (wire_watch(c->wire, err) != 0)
            return -1;
    }
    if (now_us - p->start_us > SPIN_US)
        nap();
    return 0;
}

/* Nothing blocks: what NCCL has begun with `rc` is finished in its own threads,
 * and until then it may be given nothing else. */
static int settle(struct comm_nccl *c,
                  ncclResult_t rc,
                  const char *what,
                  struct ddp_err *err)
{
    struct patience p = patience_new();
    while (rc == ncclInProgress) {
        ncclResult_t asked = nccl.CommGetAsyncError(c->comm, &rc);
        if (asked != ncclSuccess)
            rc = asked;
        else if (rc == ncclInProgress && wait_a_little(c, &p, err) != 0)
            return -1;
    }
    if (rc == ncclSuccess)
        return 0;
    (void)nccl_failed(c, rc, what, err);
    ask_control(c, err);
    return -1;
}

/* Until the stream is empty. */
static int drain(struct comm_nccl *c, const char *what, struct ddp_err *err)
{
    struct patience p = patience_new();
    int rc;
    while ((rc = c->gpu->stream_query(c->stream)) == GPU_NOT_READY) {
        ncclResult_t state = ncclSuccess;
        if (c->comm != NULL) {
            ncclResult_t asked = nccl.CommGetAsyncError(c->comm, &state);
            state = asked == ncclSuccess ? state : asked;
        }
        if (state != ncclSuccess && state != ncclInProgress)
            return settle(c, state, what, err);
        if (wait_a_little(c, &p, err) != 0)
            return -1;
    }
    if (rc != 0)
        return ddp_err_set(err, DDP_E_IO, "%s: the GPU failed: %s", what,
                           gpu_text(c->gpu, rc));
    c->pending = false;
    return 0;
}

/* -- the collectives ------------------------------------------------------- */

static int begin(struct comm_nccl *c,
                 enum wire_kind kind,
                 int dtype,
                 int root,
                 struct ddp_err *err)
{
    ddp_assert(c->control != NULL && c->wire != NULL);
    if (wire_begin(c->wire, kind, dtype, root, c->base.timeout_us, err) != 0)
        return -1;
    return wire_watch(c->wire, err); /* has a peer given up already? */
}

/* What NCCL answered to the call that enqueues. */
static int enqueued(struct comm_nccl *c,
                    ncclResult_t answer,
                    const char *what,
                    struct ddp_err *err)
{
    c->pending = true;
    int rc = settle(c, answer, what, err);
    if (rc == 0 && !c->async)
        rc = drain(c, what, err);
    return end(c, rc, err);
}

static bool on_gpu(const struct comm_nccl *c, const void *data, size_t len)
{
    return len > 0 && gpu_is_device(c->gpu, data);
}

/* The control does what lies in host memory; when it fails so does NCCL. */
static struct ddp_comm *control(struct comm_nccl *c)
{
    c->control->timeout_us = c->base.timeout_us;
    return c->control;
}

static int controlled(struct comm_nccl *c, int rc, const struct ddp_err *err)
{
    return rc == 0 ? 0 : end(c, rc, err);
}

static int nccl_allreduce(struct ddp_comm *comm,
                          void *data,
                          size_t count,
                          enum ddp_dtype dtype,
                          struct ddp_err *err)
{
    static const char what[] = "all-reduce";
    struct comm_nccl *c = self(comm);
    ncclDataType_t type = dtype == DDP_F32   ? ncclFloat32
                          : dtype == DDP_F64 ? ncclFloat64
                                             : ncclInt64;
    if (!on_gpu(c, data, count)) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->allreduce(k, data, count, dtype, err),
                          err);
    }
    if (begin(c, WIRE_ALLREDUCE, (int)dtype, 0, err) != 0)
        return end(c, -1, err);
    if (c->comm == NULL)
        return end(c, 0, err); /* alone */
    return enqueued(
        c, nccl.AllReduce(data, data, count, type, ncclSum, c->comm, c->stream),
        what, err);
}

static int nccl_broadcast(struct ddp_comm *comm,
                          void *data,
                          size_t len,
                          int root,
                          struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    if (!on_gpu(c, data, len)) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->broadcast(k, data, len, root, err), err);
    }
    if (begin(c, WIRE_BROADCAST, 0, root, err) != 0)
        return end(c, -1, err);
    if (c->comm == NULL)
        return end(c, 0, err); /* alone */
    return enqueued(
        c, nccl.Broadcast(data, data, len, ncclUint8, root, c->comm, c->stream),
        "broadcast", err);
}

/* Alone: what is mine is all there is. */
static int gather_one(struct comm_nccl *c,
                      const void *mine,
                      size_t len,
                      void *all,
                      struct ddp_err *err)
{
    int rc = mine == all
                 ? 0
                 : c->gpu->copy(gpu_addr(all), gpu_addr(mine), len, c->stream);
    if (rc != 0)
        (void)ddp_err_set(err, DDP_E_IO, "all-gather: the GPU failed: %s",
                          gpu_text(c->gpu, rc));
    c->pending = true;
    if (rc == 0 && !c->async)
        return end(c, drain(c, "all-gather", err), err);
    return end(c, rc == 0 ? 0 : -1, err);
}

static int nccl_allgather(struct ddp_comm *comm,
                          const void *mine,
                          size_t len,
                          void *all,
                          struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    if (on_gpu(c, mine, len) != on_gpu(c, all, len))
        return ddp_err_set(err, DDP_E_USAGE,
                           "all-gather: one buffer lies in GPU memory, the "
                           "other does not");
    if (!on_gpu(c, all, len)) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->allgather(k, mine, len, all, err), err);
    }
    if (begin(c, WIRE_ALLGATHER, 0, 0, err) != 0)
        return end(c, -1, err);
    if (c->comm == NULL)
        return gather_one(c, mine, len, all, err);
    return enqueued(
        c, nccl.AllGather(mine, all, len, ncclUint8, c->comm, c->stream),
        "all-gather", err);
}

static int nccl_wait(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    if (begin(c, WIRE_BARRIER, 0, 0, err) != 0)
        return end(c, -1, err);
    return end(c, c->pending ? drain(c, "wait", err) : 0, err);
}

/* What this rank has enqueued is done, then all have come. */
static int nccl_barrier(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    if (nccl_wait(comm, err) != 0)
        return -1;
    struct ddp_comm *k = control(c);
    return controlled(c, k->ops->barrier(k, err), err);
}

/* The call that polls sees it; from here NCCL may not be touched. */
static void nccl_abort(struct ddp_comm *comm)
{
    wire_abort(self(comm)->wire);
}

/* -- the end --------------------------------------------------------------- */

/* Whatever goes wrong here, the work is done. */
static void nccl_leave(struct ddp_comm *comm)
{
    struct comm_nccl *c = self(comm);
    struct ddp_err ignored;
    c->base.timeout_us = LEAVE_US;
    if (begin(c, WIRE_LEAVE, 0, 0, &ignored) != 0) {
        (void)end(c, -1, &ignored);
        return;
    }
    int rc = c->pending ? drain(c, "leave", &ignored) : 0;
    if (rc == 0 && c->comm != NULL)
        rc = settle(c, nccl.CommFinalize(c->comm), "leave", &ignored);
    if (end(c, rc, &ignored) != 0)
        return;
    if (c->comm != NULL)
        (void)nccl.CommDestroy(c->comm); /* frees what it can */
    c->comm = NULL;
    c->control->ops->leave(c->control);
}

static void nccl_del(struct ddp_comm *comm)
{
    struct comm_nccl *c = self(comm);
    if (c->comm != NULL)
        (void)nccl.CommAbort(c->comm); /* it never came to be used */
    if (c->control != NULL)
        c->control->ops->del(c->control);
    free(c);
}

static const struct comm_ops nccl_ops = {
    .allreduce = nccl_allreduce,
    .broadcast = nccl_broadcast,
    .allgather = nccl_allgather,
    .barrier = nccl_barrier,
    .wait = nccl_wait,
    .abort = nccl_abort,
    .leave = nccl_leave,
    .del = nccl_del,
};

/* -- making one ------------------------------------------------------------ */

static int64_t left_us(int64_t deadline_us)
{
    if (deadline_us == MONO_NEVER)
        return MONO_NEVER;
    int64_t left = deadline_us - mono_now_us();
    return left > 1 ? left : 1;
}

/*
 * An id is a listening socket and a thread in the process that makes it, so
 * only those make one whose turn it is. The i-th is made by rank i * world / n.
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
            rc = nccl.GetUniqueId(&ids[i]);
        if (rc != ncclSuccess) {
            if (begin(c, WIRE_START, 0, 0, err) == 0)
                (void)nccl_failed(c, rc, "start of NCCL", err);
            return end(c, -1, err);
        }
        if (k->ops->broadcast(k, &ids[i], sizeof(ids[i]), root, err) != 0)
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
    if (begin(c, WIRE_START, 0, 0, err) != 0)
        return end(c, -1, err);
    ncclResult_t rc =
        n == 1
            ? nccl.CommInitRankConfig(&c->comm, world, ids[0], rank, &config)
            : nccl.CommInitRankScalable(&c->comm, world, rank, n, ids, &config);
    if (end(c, settle(c, rc, what, err), err) != 0)
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
    if (place->world > 1 && load_nccl(err) != 0)
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
