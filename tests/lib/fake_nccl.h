/*
 * tests/lib/fake_nccl: a libnccl.so.2 on top of fake_cuda, for processes of one
 * machine: ranks meet in a file that the unique id names. Its collectives are
 * real; they never end when a rank is missing, as those of NCCL, and what goes
 * wrong goes wrong as a test asks for. It combines elements by libddp's own
 * functions, in the order of ranks.
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A call that NCCL got. */
struct fake_nccl_call {
    const char *name; /* "AllReduce", static */
    size_t count;
    int type; /* ncclDataType_t */
    int op;   /* ncclRedOp_t; -1: it has none */
};
#define FAKE_NCCL_CALLS 64

struct fake_nccl {
    bool never_starts;   /* the start stays in progress */
    bool start_fails;    /* .. or ends with an error */
    bool no_id;          /* ncclGetUniqueId fails */
    int error_at;        /* an async error instead of this collective, from 1 */
    int slow_at;         /* stays "in progress" for some polls at this one */
    atomic_int aborts;   /* calls of ncclCommAbort, by a thread .. */
    atomic_int in_abort; /* .. that have not ended */
    int destroys;        /* of ncclCommDestroy */
    int ids;             /* of ncclGetUniqueId */
    int ids_given;       /* to the start */
    bool wrong_blocking; /* the start was asked to block */
    /* For as long as it is set; read by the thread that aborts. */
    atomic_bool abort_blocks;
    atomic_bool abort_stuck; /* .. and its kernels do not end either */
    /* All other ranks, in a world of one process: the part of `rank` in the
     * collective `number` of a communicator, from 0; false: it has not come. */
    bool (*peer)(int rank, long long number, void *part, size_t len);
    int busy_us; /* how long the device takes for each, at least */
    int version; /* what ncclGetVersion says; 0: that of nccl.h */
    int calls;   /* that move data; the first of them stand in `call` */
    struct fake_nccl_call call[FAKE_NCCL_CALLS];
};

struct fake_nccl *fake_nccl(void);

#endif
