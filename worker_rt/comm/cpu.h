/*
 * worker_rt/comm/cpu: collectives over TCP for data in host memory.
 */
#ifndef WORKER_RT_COMM_CPU_H
#define WORKER_RT_COMM_CPU_H

#include "rendezvous/client/store.h"
#include "worker_rt/comm/comm.h"

/*
 * Meets the other ranks through `store` and connects to its neighbours.
 * Borrows both for the call. NULL on error: those of the store; TIMEOUT (not
 * all came until the deadline); PEER; PROTO (a neighbour refused: it is in
 * another round, say); NOMEM.
 */
struct ddp_comm *comm_cpu_new(const struct comm_place *place,
                              struct store_client *store,
                              int64_t deadline_us,
                              struct ddp_err *err);

/* Its connections, for a communicator that rides on it: see comm_nccl. */
struct wire;
struct wire *comm_cpu_wire(struct ddp_comm *c);

#endif
