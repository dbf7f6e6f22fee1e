/* links: worker_rt/env worker_rt/comm/comm */
/* links: rendezvous/client/store rendezvous/base/dial */
/* links: worker_rt/comm/nccl worker_rt/comm/nccl_lib */
/* links: worker_rt/comm/nccl_wait worker_rt/comm/head worker_rt/comm/reduce */
/* links: worker_rt/proof */
/* links: worker_rt/fork worker_rt/abi */
/* links: worker_rt/gpu worker_rt/comm/cpu worker_rt/comm/wire */
/* links: worker_rt/comm/meet worker_rt/comm/addresses worker_rt/beat */
/* links: rendezvous/base/rng */
/* links: rendezvous/base/signals_name */
#include "tests/lib/rt_comm.h"

#include <check.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ranks end in the middle of something on purpose: what they then have is no
 * leak, so somebody knows of it. What they gave up is, since its parts are not
 * found by these. */
static void *volatile held[64]; /* written, and read by valgrind only */

static void *hold(void *p)
{
    static size_t n;
    if (n < sizeof(held) / sizeof(held[0]))
        held[n++] = p;
    return p;
}

struct ddp *rt_init(void)
{
    struct ddp_error e;
    struct ddp *d = ddp_init(&e);
    RT_OK(d == NULL ? -1 : 0, e);
    return hold(d);
}

struct ddp_comm *rt_join(struct ddp *d, int64_t timeout_ms)
{
    struct ddp_error e;
    struct ddp_comm_opts opts = {.init_timeout_ms = 5000,
                                 .timeout_ms = timeout_ms};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    return hold(c);
}

void *rt_abort_soon(void *comm)
{
    (void)usleep(100000);
    ddp_comm_abort(comm);
    return NULL;
}

void *rt_shared(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}
