/*
 * launcher/mpi/mpi: serves PMI-1 to the workers of this node, so that an
 * unmodified MPI program finds the other ranks: a socket for each worker, and a
 * fresh key space for each round.
 */
#ifndef LAUNCHER_MPI_MPI_H
#define LAUNCHER_MPI_MPI_H

#include <sys/types.h>
#include <uv.h>

#include "launcher/agent/agent.h"
#include "launcher/conf/conf.h"
#include "rendezvous/proto/msg.h"

struct mpi;

struct mpi_handler {
    /* The worker has failed as its MPI library says, or will never do what the
     * others wait for; it may live. `w` is borrowed for the call, which is
     * never within mpi_round or mpi_open_worker. */
    void (*on_failed)(void *ctx, const struct agent_worker *w);
};

/* Borrows everything for the life of the process. NULL: no worker wants it
 * (--mpi=none). Ends the process if memory runs out. */
struct mpi *mpi_new(uv_loop_t *loop,
                    const struct conf *conf,
                    const struct mpi_handler *handler,
                    void *ctx);

/* In what follows `m` may be NULL, and nothing is done. */

/* A new round, before its first worker is started; those of the round before
 * are dead. */
void mpi_round(struct mpi *m, const struct msg_world *world);

/*
 * Makes the socket of a worker that is about to be started. *fd is the worker's
 * end, close-on-exec, which the caller closes once the worker has it; -1: it
 * needs none. Errors: DDP_E_NOMEM.
 */
int mpi_open_worker(struct mpi *m,
                    int local_rank,
                    int *fd,
                    struct ddp_err *err);

/* It was started. */
void mpi_started(struct mpi *m, int local_rank, pid_t pid);

/*
 * The worker has ended, as `w` says. What workers said before is looked at
 * first, so that an abort comes before the exit that follows it. If it ended
 * with 0 where an MPI program must not, `w` becomes a failure, whose text stays
 * until the next call.
 */
void mpi_ended(struct mpi *m, struct agent_worker *w);

#endif
