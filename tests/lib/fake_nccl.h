/*
 * tests/lib/fake_nccl: a libnccl.so.2 on top of fake_cuda, for processes of one
 * machine: ranks meet in a file that the unique id names. Its collectives are
 * real; they never end when a rank is missing, as those of NCCL, and what goes
 * wrong goes wrong as a test asks for.
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <stdbool.h>
#include <stddef.h>

struct fake_nccl {
    bool never_starts;   /* the start stays in progress */
    bool start_fails;    /* .. or ends with an error */
    bool no_id;          /* ncclGetUniqueId fails */
    int error_at;        /* an async error instead of this collective, from 1 */
    int slow_at;         /* stays "in progress" for some polls at this one */
    int aborts;          /* calls of ncclCommAbort */
    int destroys;        /* of ncclCommDestroy */
    int ids;             /* of ncclGetUniqueId */
    int ids_given;       /* to the start */
    bool wrong_blocking; /* the start was asked to block */
    bool abort_blocks;   /* for as long as it is set .. */
    bool abort_stuck;    /* .. and its kernels do not end either */
    /* All other ranks, in a world of one process: the part of `rank` in the
     * collective `number` of a communicator, from 0; false: it has not come. */
    bool (*peer)(int rank, long long number, void *part, size_t len);
};

struct fake_nccl *fake_nccl(void);

#endif
