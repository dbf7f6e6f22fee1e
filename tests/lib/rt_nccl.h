/*
 * tests/lib/rt_nccl: what ranks that try a communicator on NCCL have in common,
 * over tests/lib/fake_cuda and fake_nccl, which the test finds in its run path.
 * To be called in a rank (see rt_world); a failure ends it with status 1.
 */
#ifndef RT_NCCL_H
#define RT_NCCL_H

#include <stddef.h>

#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_nccl.h"
#include "worker_rt/ddp.h"

/* This process's knobs of both libraries. */
struct fake_cuda *rt_cuda(void);
struct fake_nccl *rt_nccl(void);

/* Memory of the device, and where a test may touch it. */
void *rt_device(size_t len);
void *rt_shadow(void *p);

/* The next communicator on NCCL, all ranks met within five seconds if `opts`
 * does not say; the first returns NULL with `e` if there is none. */
struct ddp_comm *
rt_try_nccl(struct ddp *d, struct ddp_comm_opts opts, struct ddp_error *e);
struct ddp_comm *rt_join_nccl(struct ddp *d, struct ddp_comm_opts opts);

#endif
