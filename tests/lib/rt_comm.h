/*
 * tests/lib/rt_comm: what ranks that try a communicator have in common. To be
 * called in a rank (see rt_world); a failure ends it with status 1.
 */
#ifndef RT_COMM_H
#define RT_COMM_H

#include <stdint.h>

#include "tests/lib/rt_world.h"
#include "worker_rt/ddp.h"

/* The handle of a rank, and its next communicator, all ranks met within five
 * seconds; `timeout_ms` is that of each collective. */
struct ddp *rt_init(void);
struct ddp_comm *rt_join(struct ddp *d, int64_t timeout_ms);

/* A thread that aborts the communicator `comm` in 100 ms. */
void *rt_abort_soon(void *comm);

/* `size` bytes of zeros that all ranks started later share with the test; they
 * live as long as it. */
void *rt_shared(size_t size);

#endif
