/* links: worker_rt/{env,death_sign,own_part,proof,fork,abi,gpu,beat} */
/* links: worker_rt/comm/{comm,nccl,nccl_lib,nccl_wait,head,reduce,cpu,wire} */
/* links: worker_rt/comm/{meet,addresses,hello} rendezvous/client/store */
/* links: rendezvous/base/{dial,siphash,rng,signals_name} */
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
