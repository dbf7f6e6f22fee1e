/*
 * worker_rt/comm/nccl_wait: what a communicator on NCCL is, and all that waits
 * for NCCL, the GPU and the other ranks, or gives up; nccl_lib: NCCL as it is
 * loaded at run time, and its abort, which must not block. Only where nccl.h
 * was found (DDP_NCCL).
 */
#ifndef WORKER_RT_COMM_NCCL_WAIT_H
#define WORKER_RT_COMM_NCCL_WAIT_H

#include <nccl.h>

#include "worker_rt/comm/cpu.h"
#include "worker_rt/comm/wire.h"
#include "worker_rt/gpu.h"

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
    X(GroupStart)                                                              \
    X(GroupEnd)                                                                \
    X(GetErrorString)                                                          \
    X(GetLastError)                                                            \
    X(AllReduce)                                                               \
    X(Broadcast)                                                               \
    X(AllGather)                                                               \
    X(ReduceScatter)

/* Without their "nccl"; each has the type that nccl.h declares. */
struct nccl_lib {
#define X(name) __typeof__(nccl##name) *name;
    NCCL_FUNCTIONS(X)
#undef X
};

/* From any thread. NULL: CONFIG, there is none or it is too old; the same each
 * time. */
const struct nccl_lib *nccl_lib_load(struct ddp_err *err);

/*
 * Aborts `n` communicators of this process as a group, in the order given. NCCL
 * may wait for ever there (NVIDIA/nccl #863, #992, #1013, #1777), so it does
 * that in a thread of its own. false: it has not come to an end within
 * `within_us`; the thread stays behind. Takes over `comms`, which is from
 * malloc.
 */
bool nccl_lib_abort(ncclComm_t *comms, size_t n, int64_t within_us);

/* -- a communicator -------------------------------------------------------- */

struct comm_nccl {
    struct ddp_comm base;
    struct ddp_comm *control;
    struct wire *wire; /* of the control */
    const struct gpu_driver *gpu;
    const struct nccl_lib *nccl; /* NULL in a world of one */
    ncclComm_t comm; /* NULL: alone, not started, or aborted; under the lock */
    struct comm_nccl *next; /* of this process, from the start on */
    void *stream;
    bool async;
    bool pending;    /* something was enqueued and not waited for */
    void *event;     /* recorded at `marked`; NULL: not made yet */
    uint64_t marked; /* a ticket, see worker_rt/proof; 0: none */
};

static inline struct comm_nccl *nccl_self(struct ddp_comm *c)
{
    return (struct comm_nccl *)c; /* its first member */
}

/*
 * Begins a collective, or a call of this rank's own, and ends it. `nccl_end`
 * passes `rc` on; a failure of any kind, `err` says which, ends NCCL too, and
 * worker_rt/proof learns of it before any stream goes on.
 */
int nccl_begin(struct comm_nccl *c,
               const struct comm_call *call,
               struct ddp_err *err);
int nccl_attend(struct comm_nccl *c, struct ddp_err *err);
int nccl_end(struct comm_nccl *c, int rc, struct ddp_err *err);

/* The control, which does what lies in host memory. When it fails so does NCCL.
 */
struct ddp_comm *nccl_control(struct comm_nccl *c);

/* The lock of all `comm`s, for calls of NCCL's; each of them is short. ABORTED:
 * there is no `comm` any more, and the lock is not held. */
int nccl_lock(struct comm_nccl *c, struct ddp_err *err);
void nccl_unlock(void);

/* The same lock, whether there is a `comm` or not. */
void nccl_lock_any(void);

/* Under the lock: the failure of others aborts this one from now on. */
void nccl_register(struct comm_nccl *c);

/* The other way; also aborts a `comm` that is there. Takes the lock. */
void nccl_forget(struct comm_nccl *c);

/* From here on something may be under way. A call that waits for it tells the
 * program itself how it ended, and needs no ticket. */
void nccl_note(struct comm_nccl *c);

/* What NCCL has begun with `rc` is finished in its own threads, and until then
 * it may be given nothing else: waits for that. Errors: PEER, IO, and those of
 * wire_watch. `what` is for the text. */
int nccl_settle(struct comm_nccl *c,
                ncclResult_t rc,
                const char *what,
                struct ddp_err *err);

/* Until the event is reached, or the stream is empty (NULL). */
int nccl_poll(struct comm_nccl *c,
              void *event,
              const char *what,
              struct ddp_err *err);

/* Until the stream is empty: nothing is pending then, and all is proven. */
int nccl_drain(struct comm_nccl *c, const char *what, struct ddp_err *err);

/* Fills `err` with what went wrong in NCCL, on one line; -1. */
int nccl_failed(struct comm_nccl *c,
                ncclResult_t rc,
                const char *what,
                struct ddp_err *err);

#endif
