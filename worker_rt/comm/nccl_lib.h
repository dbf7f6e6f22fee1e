/*
 * worker_rt/comm/nccl_lib: NCCL as it is loaded at run time, and its abort,
 * which must not block. Only where nccl.h was found (DDP_NCCL).
 */
#ifndef WORKER_RT_COMM_NCCL_LIB_H
#define WORKER_RT_COMM_NCCL_LIB_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"

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

#endif
