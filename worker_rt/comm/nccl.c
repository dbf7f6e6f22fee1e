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

#include "rendezvous/base/mono.h"

int comm_nccl_ranks_per_id = 128;
int64_t comm_nccl_abort_us = 2 * MONO_S;

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

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/nccl_lib.h"
#include "worker_rt/comm/same_call.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/gpu.h"

#define SPIN_US  (50)          /* most collectives are done by then */
#define WATCH_US (1 * MONO_MS) /* how often the control is looked at */
/* For the control to know whose fault it is. */
#define BLAME_US (100 * MONO_MS)
#define LEAVE_US (1 * MONO_S)
#define NAP_NS   (20 * 1000)
#define IDS_MAX  1024

/* -- a communicator -------------------------------------------------------- */

struct comm_nccl {
    struct ddp_comm base;
    struct ddp_comm *control;
    struct wire *wire; /* of the control */
    const struct gpu_driver *gpu;
    ncclComm_t comm; /* NULL: alone, not started, or aborted; under nccl_lock */
    struct comm_nccl *next; /* in `all`, from the start on */
    void *stream;
    bool async;
    bool checks;     /* calls are compared first */
    bool pending;    /* something was enqueued and not waited for */
    void *event;     /* recorded at `marked`; NULL: not made yet */
    uint64_t marked; /* a ticket, see worker_rt/proof; 0: none */
};

static const struct nccl_lib *nccl; /* the same for all; NULL: not needed yet */

/* All of this process. The lock is held for each call on a `comm`, since the
 * failure of another communicator aborts it, too; none of these calls blocks.
 */
static pthread_mutex_t nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static struct comm_nccl *all;

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
    (void)pthread_mutex_lock(&nccl_lock);
    const char *text = nccl->GetLastError(c->comm);
    (void)snprintf(last, sizeof(last), "%s", text == NULL ? "" : text);
    (void)pthread_mutex_unlock(&nccl_lock);
    for (char *p = last; *p != '\0'; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return ddp_err_set(err, code, "%s: NCCL: %s%s%s", what,
                       nccl->GetErrorString(rc), last[0] == '\0' ? "" : ": ",
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

/* -- abort ----------------------------------------------------------------- */

/* Takes communicators out of use: `last`, behind all the others of this process
 * if `every`. NULL: no memory. */
static ncclComm_t *collect(struct comm_nccl *last, bool every, size_t *n)
{
    *n = 1;
    for (const struct comm_nccl *c = all; c != NULL; c = c->next)
        *n += every && c != last && c->comm != NULL;
    ncclComm_t *comms = calloc(*n, sizeof(ncclComm_t));
    if (comms == NULL)
        return NULL;
    size_t i = 0;
    for (struct comm_nccl *c = all; every && c != NULL; c = c->next) {
        if (c->comm == NULL || c == last)
            continue;
        comms[i++] = c->comm;
        c->comm = NULL;
    }
    comms[i++] = last->comm;
    last->comm = NULL;
    ddp_assert(i == *n);
    return comms;
}

/*
 * An abort ends the kernels that wait for a peer, and what lies behind them on
 * the stream goes on with data that was never summed. If something was enqueued
 * there, a collective of another communicator may be among it, and must not
 * carry that to other ranks: so all of this process are aborted (`every`). NCCL
 * notes each abort when it is called, and waits when the group ends; the one
 * whose kernels wait comes last. false: NCCL has not come to an end in time.
 */
static bool abort_nccl(struct comm_nccl *c, bool every)
{
    size_t n = 0;
    ncclComm_t *comms = NULL;
    (void)pthread_mutex_lock(&nccl_lock);
    if (c->comm != NULL && (comms = collect(c, every, &n)) == NULL) {
        (void)nccl->CommAbort(c->comm);
        c->comm = NULL;
    }
    (void)pthread_mutex_unlock(&nccl_lock);
    return comms == NULL || nccl_lib_abort(comms, n, comm_nccl_abort_us);
}

/* The text is the most that can be done: the GPU's work cannot be taken back.
 */
static void add_stuck(struct ddp_err *err)
{
    size_t n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof(err->text) - n,
                   " (NCCL does not come to an end: the GPU may be busy until "
                   "this process ends)");
}

/* Ends what was begun on the control. A failure of any kind ends NCCL too, and
 * the proof learns of it before any stream goes on. */
static int end(struct comm_nccl *c, int rc, struct ddp_err *err)
{
    if (rc == 0)
        return 0;
    bool open = c->base.proof.oldest != 0;
    wire_tell_proof(c->wire, &c->base.proof, err);
    (void)wire_end(c->wire, rc, err);
    if (!abort_nccl(c, open))
        add_stuck(err);
    return rc;
}

/* The lock is held on success, until `leave`. */
static int enter(struct comm_nccl *c, struct ddp_err *err)
{
    (void)pthread_mutex_lock(&nccl_lock);
    if (c->comm != NULL)
        return 0;
    (void)pthread_mutex_unlock(&nccl_lock);
    return ddp_err_set(err, DDP_E_ABORTED,
                       "NCCL was aborted, since another communicator of this "
                       "process failed");
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&nccl_lock);
}

/* NCCL's own state; an error is in `state`, too. */
static int
ask_nccl(struct comm_nccl *c, ncclResult_t *state, struct ddp_err *err)
{
    if (enter(c, err) != 0)
        return -1;
    ncclResult_t rc = nccl->CommGetAsyncError(c->comm, state);
    leave();
    if (rc != ncclSuccess)
        *state = rc;
    return 0;
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
        if (ask_nccl(c, &rc, err) != 0 ||
            (rc == ncclInProgress && wait_a_little(c, &p, err) != 0))
            return -1;
    }
    if (rc == ncclSuccess)
        return 0;
    (void)nccl_failed(c, rc, what, err);
    ask_control(c, err);
    return -1;
}

/* NCCL has no error of its own. */
static int
check_nccl(struct comm_nccl *c, const char *what, struct ddp_err *err)
{
    ncclResult_t state = ncclSuccess;
    if (c->base.world == 1)
        return 0;
    if (ask_nccl(c, &state, err) != 0)
        return -1;
    return state == ncclInProgress ? 0 : settle(c, state, what, err);
}

/*
 * Until the event is reached, or the stream is empty (NULL). NCCL is asked once
 * more behind that: only what came to its end before NCCL had an error, and
 * before it was aborted, is known to be right.
 */
static int poll_gpu(struct comm_nccl *c,
                    void *event,
                    const char *what,
                    struct ddp_err *err)
{
    struct patience p = patience_new();
    for (;;) {
        int rc = event != NULL ? c->gpu->event_query(event)
                               : c->gpu->stream_query(c->stream);
        if (rc != 0 && rc != GPU_NOT_READY)
            return ddp_err_set(err, DDP_E_IO, "%s: the GPU failed: %s", what,
                               gpu_text(c->gpu, rc));
        if (check_nccl(c, what, err) != 0)
            return -1;
        if (rc == 0)
            return 0;
        if (wait_a_little(c, &p, err) != 0)
            return -1;
    }
}

/* Until the stream is empty. */
static int drain(struct comm_nccl *c, const char *what, struct ddp_err *err)
{
    if (poll_gpu(c, NULL, what, err) != 0)
        return -1;
    c->pending = false;
    c->marked = 0;
    proof_done(&c->base.proof, c->base.proof.newest);
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
    if (wire_ask_proof(c->wire, &c->base.proof, err) != 0)
        return -1;
    return wire_watch(c->wire, err); /* has a peer given up already? */
}

/* For a wait of this rank's own. */
static int attend(struct comm_nccl *c, struct ddp_err *err)
{
    if (wire_attend(c->wire, WIRE_WAIT, c->base.timeout_us, err) != 0)
        return -1;
    return wire_ask_proof(c->wire, &c->base.proof, err);
}

/* The control does what lies in host memory; when it fails so does NCCL. */
static struct ddp_comm *control(struct comm_nccl *c)
{
    c->control->timeout_us = c->base.timeout_us;
    return c->control;
}

/* Before the call that enqueues; on success the lock is held. */
static int begin_nccl(struct comm_nccl *c,
                      enum wire_kind kind,
                      int dtype,
                      int root,
                      size_t len,
                      struct ddp_err *err)
{
    const struct same_call call = {kind, dtype, root, (int64_t)len};
    if (c->checks && same_call_check(control(c), &call, err) != 0)
        return -1;
    if (begin(c, kind, dtype, root, err) != 0)
        return -1;
    return c->base.world == 1 ? 0 : enter(c, err);
}

/* From here on something may be under way. A call that waits for it tells the
 * program itself how it ended, and needs no ticket. */
static void note_pending(struct comm_nccl *c)
{
    c->pending = true;
    if (c->async)
        proof_draw(&c->base.proof);
}

/* What NCCL answered to the call that enqueues. */
static int enqueued(struct comm_nccl *c,
                    ncclResult_t answer,
                    const char *what,
                    struct ddp_err *err)
{
    leave();
    note_pending(c);
    int rc = settle(c, answer, what, err);
    if (rc == 0 && !c->async)
        rc = drain(c, what, err);
    return end(c, rc, err);
}

/* Nothing lies in no memory. If the driver cannot tell, the communicator fails
 * as by any other failure of the GPU. */
static enum gpu_place where(struct comm_nccl *c,
                            enum wire_kind kind,
                            const void *data,
                            size_t len,
                            struct ddp_err *err)
{
    enum gpu_place place = len > 0 ? gpu_where(c->gpu, data, err) : GPU_HOST;
    struct ddp_err older;
    if (place != GPU_UNKNOWN)
        return place;
    if (begin(c, kind, 0, 0, &older) != 0)
        *err = older;
    (void)end(c, -1, err);
    return GPU_UNKNOWN;
}

static int controlled(struct comm_nccl *c, int rc, struct ddp_err *err)
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
    enum gpu_place at = where(c, WIRE_ALLREDUCE, data, count, err);
    if (at == GPU_UNKNOWN)
        return -1;
    if (at == GPU_HOST) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->allreduce(k, data, count, dtype, err),
                          err);
    }
    if (begin_nccl(c, WIRE_ALLREDUCE, (int)dtype, 0, count, err) != 0)
        return end(c, -1, err);
    if (comm->world == 1)
        return end(c, 0, err); /* alone */
    return enqueued(
        c,
        nccl->AllReduce(data, data, count, type, ncclSum, c->comm, c->stream),
        what, err);
}

static int nccl_broadcast(struct ddp_comm *comm,
                          void *data,
                          size_t len,
                          int root,
                          struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    enum gpu_place at = where(c, WIRE_BROADCAST, data, len, err);
    if (at == GPU_UNKNOWN)
        return -1;
    if (at == GPU_HOST) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->broadcast(k, data, len, root, err), err);
    }
    if (begin_nccl(c, WIRE_BROADCAST, 0, root, len, err) != 0)
        return end(c, -1, err);
    if (comm->world == 1)
        return end(c, 0, err); /* alone */
    return enqueued(
        c,
        nccl->Broadcast(data, data, len, ncclUint8, root, c->comm, c->stream),
        "broadcast", err);
}

/* Alone: what is mine is all there is. */
static int gather_one(struct comm_nccl *c,
                      const void *mine,
                      size_t len,
                      void *every,
                      struct ddp_err *err)
{
    int rc = mine == every ? 0
                           : c->gpu->copy(gpu_addr(every), gpu_addr(mine), len,
                                          c->stream);
    if (rc != 0)
        (void)ddp_err_set(err, DDP_E_IO, "all-gather: the GPU failed: %s",
                          gpu_text(c->gpu, rc));
    note_pending(c);
    if (rc == 0 && !c->async)
        return end(c, drain(c, "all-gather", err), err);
    return end(c, rc == 0 ? 0 : -1, err);
}

static int nccl_allgather(struct ddp_comm *comm,
                          const void *mine,
                          size_t len,
                          void *every,
                          struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    enum gpu_place from = where(c, WIRE_ALLGATHER, mine, len, err);
    enum gpu_place to = from == GPU_UNKNOWN
                            ? GPU_UNKNOWN
                            : where(c, WIRE_ALLGATHER, every, len, err);
    if (to == GPU_UNKNOWN)
        return -1;
    if (from != to)
        return ddp_err_set(err, DDP_E_USAGE,
                           "all-gather: one buffer lies in GPU memory, the "
                           "other does not");
    if (to == GPU_HOST) {
        struct ddp_comm *k = control(c);
        return controlled(c, k->ops->allgather(k, mine, len, every, err), err);
    }
    if (begin_nccl(c, WIRE_ALLGATHER, 0, 0, len, err) != 0)
        return end(c, -1, err);
    if (comm->world == 1)
        return gather_one(c, mine, len, every, err);
    return enqueued(
        c, nccl->AllGather(mine, every, len, ncclUint8, c->comm, c->stream),
        "all-gather", err);
}

static int nccl_wait(struct ddp_comm *comm, struct ddp_err *err)
{
    struct comm_nccl *c = self(comm);
    if (attend(c, err) != 0 || wire_watch(c->wire, err) != 0)
        return end(c, -1, err);
    return end(c, c->pending ? drain(c, "wait", err) : 0, err);
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
    int rc = attend(c, &why);
    if (rc == 0)
        rc = poll_gpu(c, by_event ? c->event : NULL, "save", &why);
    if (rc == 0) {
        c->marked = 0;
        proof_done(part, upto);
    }
    (void)end(c, rc, &why);
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
    if (attend(c, &why) == 0)
        (void)ddp_err_set(&why, DDP_E_IO, "save: the GPU failed: %s",
                          gpu_text(c->gpu, rc));
    (void)end(c, -1, &why);
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
    if (rc == 0 && comm->world > 1 && (rc = enter(c, &ignored)) == 0) {
        ncclResult_t answer = nccl->CommFinalize(c->comm);
        leave();
        rc = settle(c, answer, "leave", &ignored);
    }
    if (end(c, rc, &ignored) != 0)
        return;
    (void)pthread_mutex_lock(&nccl_lock);
    if (c->comm != NULL)
        (void)nccl->CommDestroy(c->comm); /* frees what it can */
    c->comm = NULL;
    (void)pthread_mutex_unlock(&nccl_lock);
    c->control->ops->leave(c->control);
}

static void nccl_del(struct ddp_comm *comm)
{
    struct comm_nccl *c = self(comm);
    (void)pthread_mutex_lock(&nccl_lock);
    struct comm_nccl **at = &all;
    while (*at != NULL && *at != c)
        at = &(*at)->next;
    if (*at != NULL)
        *at = c->next;
    if (c->comm != NULL)
        (void)nccl->CommAbort(c->comm); /* it never came to be used */
    c->comm = NULL;
    (void)pthread_mutex_unlock(&nccl_lock);
    if (c->event != NULL)
        (void)c->gpu->event_destroy(c->event);
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
            rc = nccl->GetUniqueId(&ids[i]);
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
    (void)pthread_mutex_lock(&nccl_lock);
    ncclResult_t rc = n == 1 ? nccl->CommInitRankConfig(&c->comm, world, ids[0],
                                                        rank, &config)
                             : nccl->CommInitRankScalable(&c->comm, world, rank,
                                                          n, ids, &config);
    c->next = all;
    all = c;
    (void)pthread_mutex_unlock(&nccl_lock);
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
    if (place->world > 1 && (nccl = nccl_lib_load(err)) == NULL)
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
    c->checks = same_call_wanted();
    int rc = open_all(c, place, store, deadline_us, err);
    c->base.timeout_us = MONO_NEVER;
    if (rc == 0)
        return &c->base;
    nccl_del(&c->base);
    return NULL;
}

#endif
