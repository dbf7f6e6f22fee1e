/*
 * launcher/mpi/pmix: serves PMIx to the workers of this node. In each round it
 * starts a server (pmix_server), gives the workers the variables with the
 * server's address, meets the other nodes for the server, and judges the ends
 * of the workers.
 */
#ifndef LAUNCHER_MPI_PMIX_H
#define LAUNCHER_MPI_PMIX_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "rendezvous/base/err.h"
#include "rendezvous/proto/msg.h"

struct pmix;

/* A worker has failed for all, with this exit code (1 to 255). It may live.
 * Never called within pmix_round or pmix_open_worker. */
typedef void (*pmix_fail)(void *ctx, int local_rank, int code, const char *why);

/* Borrows `loop` for the life of the process. Ends the process if memory runs
 * out. */
struct pmix *pmix_new(uv_loop_t *loop, int nproc, pmix_fail fail, void *ctx);

/* In what follows `p` may be NULL, and nothing is done. */

/* A new round; the workers of the one before are dead. */
void pmix_round(struct pmix *p, const struct msg_world *world);

/*
 * *fd becomes the end of a pipe from which the new worker has to read its
 * variables before it runs the program: "NAME=VALUE" NUL ... NUL. They come
 * once the server is there. The caller closes it. -1: there is none. Errors:
 * DDP_E_NOMEM.
 */
int pmix_open_worker(struct pmix *p,
                     int local_rank,
                     int *fd,
                     struct ddp_err *err);

/* Takes what the server has said. */
void pmix_look(struct pmix *p);

/* The worker has ended, `failed` or with 0. Returns NULL, or why an end with 0
 * is a failure. */
const char *pmix_ended(struct pmix *p, int local_rank, bool failed);

/* Whether it has not called PMIx_Init, as far as the server has said; true of
 * all if `p` is NULL. */
bool pmix_is_new(const struct pmix *p, int local_rank);

/* The folder that has to go at the end, with all that is in it; "": none. */
const char *pmix_folder(const struct pmix *p);

/* The server; 0: there is none. */
pid_t pmix_helper(const struct pmix *p);

/* It has ended, and is to be reaped. */
void pmix_helper_ended(struct pmix *p);

#endif
