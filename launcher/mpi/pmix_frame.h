/*
 * launcher/mpi/pmix_frame: what a launcher and its PMIx server (pmix_server)
 * say to each other, on a socket pair, and what launchers bring and post to
 * each other in the round's store. Pure.
 */
#ifndef LAUNCHER_MPI_PMIX_FRAME_H
#define LAUNCHER_MPI_PMIX_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/buf.h"

/* Bytes of one worker's variables; there are about 1000. */
#define PMIX_ENV_MAX 4000

/* Bytes of data of one frame. */
#define PMIX_FRAME_MAX ((size_t)16 << 20)

enum pmix_kind {
    /* The server's words. `rank` is the local rank that it is about. */
    PMIX_ENV,       /* data: its variables, "NAME=VALUE" NUL ... */
    PMIX_CONNECTED, /* it is in PMIx_Init */
    PMIX_FINALIZED,
    PMIX_ABORT,     /* number: the code */
    PMIX_FENCE,     /* number: a ticket; data: this node's */
    PMIX_PUBLISH,   /* number: a ticket; data: the name, NUL, the value */
    PMIX_LOOKUP,    /* number: a ticket; data: the name, NUL */
    PMIX_UNPUBLISH, /* the same */
    PMIX_MODEX,     /* number: a ticket and a rank (pmix_frame_pair): what
                       that rank of another node has put is wanted */
    PMIX_HELD,      /* the answer to WANTED: its number; rank: 1, or 0 there is
                       none; data: that */
    PMIX_FAILED,    /* data: why; it ends */
    PMIX_SPAWN,     /* it asked for MPI_Comm_spawn, and was refused */
    /* The launcher's. */
    PMIX_WANTED, /* what this local rank has put is; number: any */
    PMIX_ANSWER, /* number: the ticket; rank: 1 done, 0 failed or not found;
                    data: all nodes' data, or the name's value */
    PMIX_KINDS
};

struct pmix_frame {
    enum pmix_kind kind;
    int32_t rank;
    int64_t number;
    const char *data; /* borrowed */
    size_t len;
};

/* Appends it. -1: over the buffer's limit, or no memory. */
int pmix_frame_put(struct buf *out, const struct pmix_frame *f);

enum pmix_frame_result {
    PMIX_FRAME_DONE,
    PMIX_FRAME_MORE,
    PMIX_FRAME_BAD,
};

/* The one at the front; it borrows from `in`, and *used is to be taken off. */
enum pmix_frame_result
pmix_frame_get(const void *in, size_t len, struct pmix_frame *f, size_t *used);

/*
 * Between launchers: in a fence FENCE (data: this node's) or FAILED (it cannot
 * bring any); in a node's box MODEX (rank: the node that asks) and ANSWER.
 */

/* A small number and one of 32 bits in one. */
int64_t pmix_frame_pair(int64_t small, uint32_t other);
int64_t pmix_frame_small(int64_t pair);
uint32_t pmix_frame_other(int64_t pair);

/* The name and the value of PUBLISH, LOOKUP and UNPUBLISH. False: there is
 * none. */
bool pmix_frame_name(const struct pmix_frame *f,
                     const char **name,
                     size_t *name_len,
                     const char **value,
                     size_t *value_len);

#endif
