/*
 * launcher/mpi/pmix_server: the PMIx server of one node in one round. It is a
 * process of its own, since it runs libpmix, with threads, and listens to the
 * workers. What other nodes have to do with goes to the launcher (pmix_frame).
 */
#ifndef LAUNCHER_MPI_PMIX_SERVER_H
#define LAUNCHER_MPI_PMIX_SERVER_H

#include <stdint.h>

#include "launcher/mpi/pmix_folder.h"
#include "launcher/mpi/pmix_nodes.h"
#include "rendezvous/base/err.h"

struct pmix_job {
    char nspace[64]; /* new in each round */
    struct pmix_nodes maps;
    int64_t nodes;
    int64_t world_size;
    int nproc;
    char folder[PMIX_FOLDER_MAX]; /* "": none */
};

/* In a fresh child (net/helper); `fd` is the socket to the launcher. */
__attribute__((noreturn)) void pmix_server_main(int fd,
                                                const struct pmix_job *job);

/*
 * Whether libpmix can be loaded, tried in a child, since it stays once it is
 * loaded. Before there are threads. Errors: DDP_E_CONFIG with what to install,
 * DDP_E_NOMEM.
 */
int pmix_server_probe(struct ddp_err *err);

#endif
