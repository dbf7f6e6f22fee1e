/*
 * worker_rt/comm/nccl: collectives on GPU memory by NCCL, which is loaded at
 * run time. Each such communicator has one of comm_cpu below it, its control:
 * over it the ranks meet through the store and hand out NCCL's unique ids, it
 * carries what lies in host memory, and it tells of a peer's death within
 * milliseconds, upon which NCCL is called off (ncclCommAbort).
 *
 * The ids travel over the control and not as keys of the store, so that the
 * death of the rank that makes one is noticed, and a straggler cannot leave
 * one behind.
 */
#ifndef WORKER_RT_COMM_NCCL_H
#define WORKER_RT_COMM_NCCL_H

#include "rendezvous/client/store.h"
#include "worker_rt/comm/comm.h"

/* Ranks for each unique id: 128. With more they would all queue at one rank
 * (ncclCommInitRankScalable, NCCL 2.23). A test makes it less. */
extern int comm_nccl_ranks_per_id;

/* How long a call that failed waits for NCCL's abort: two seconds. A test makes
 * it less. */
extern int64_t comm_nccl_abort_us;

/*
 * Borrows `place`, `store` and `opts` for the call, the stream until the end.
 * NULL on error: those of comm_cpu_new; CONFIG (built without nccl.h; no
 * driver, no NCCL or one that is too old; no GPU chosen), IO (NCCL failed).
 */
struct ddp_comm *comm_nccl_new(const struct comm_place *place,
                               struct store_client *store,
                               const struct ddp_comm_opts *opts,
                               int64_t deadline_us,
                               struct ddp_err *err);

#endif
