/*
 * launcher/mpi/mpi: serves PMI-1, PMIx or both to the workers of this node, so
 * that an unmodified MPI program finds the other ranks: a socket for each
 * worker and a fresh key space for each round (PMI-1), and a server for each
 * round (launcher/mpi/pmix).
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

/* A worker's ends, close-on-exec, -1: it needs none. */
struct mpi_fds {
    int pmi; /* its PMI socket */
    int env; /* from which its PMIx variables come: spawn_request.env_fd */
};

/*
 * Makes those of a worker that is about to be started. The caller closes them
 * once the worker has them (mpi_close_fds). Errors: DDP_E_NOMEM, and none is
 * open.
 */
int mpi_open_worker(struct mpi *m,
                    int local_rank,
                    struct mpi_fds *fds,
                    struct ddp_err *err);
void mpi_close_fds(const struct mpi_fds *fds);

/* It was started; from 0 to the last one in each round. */
void mpi_started(struct mpi *m, int local_rank, pid_t pid);

/*
 * The worker has ended, as `w` says. What workers said before is looked at
 * first, so that an abort comes before the exit that follows it. If it ended
 * with 0 where an MPI program must not, `w` becomes a failure, whose text stays
 * until the next call. Where all workers have ended with 0 and without MPI, the
 * log says once what an MPI program would need.
 */
void mpi_ended(struct mpi *m, struct agent_worker *w);

/* A folder that has to go at the end, with all that is in it; "": none. */
const char *mpi_folder(const struct mpi *m);

enum mpi_helper {
    MPI_HELPER_PMIX,  /* the PMIx server */
    MPI_HELPER_HWLOC, /* what looks at the topology (hwloc_xml) */
    MPI_HELPERS
};

/* Its process; 0: there is none. */
pid_t mpi_helper(const struct mpi *m, enum mpi_helper which);

/* It has ended, and is to be reaped. */
void mpi_helper_ended(struct mpi *m, enum mpi_helper which);

#endif
