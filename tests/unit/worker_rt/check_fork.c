/* links: tests/lib/{rt_world,rt_comm} RT */
/* libs: -luv -lcjson -lxxhash -pthread */
/*
 * A worker that has children, as loaders of data do: they must not hide its
 * death from the other ranks, nor hold what the next worker needs.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/snapshot_memory.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"
#include "worker_rt/snapshot/mem_slots.h"

#define LIVES_S 3 /* a child, behind its parent */

struct board {
    int64_t killed_us;
    int64_t told_us;
};

/* The child of rank 0 outlives it. */
static void load_data(void)
{
    if (fork() != 0)
        return;
    (void)sleep(LIVES_S);
    _exit(0);
}

static int be_parent(int rank, void *arg)
{
    struct board *b = arg;
    struct ddp_error e;
    float x = 1;
    struct ddp *d = rt_init();
    struct ddp_comm *c = rt_join(d, 0);
    struct ddp_keeper_conf conf = {.folder = NULL};
    struct ddp_keeper *k = ddp_keeper_new(d, c, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e);
    if (rank == 0) {
        load_data();
        b->killed_us = mono_now_us();
        (void)raise(SIGKILL);
    }
    RT_CHECK(ddp_comm_allreduce(c, &x, 1, DDP_F32, &e) != 0);
    b->told_us = mono_now_us();
    RT_CHECK(e.code == DDP_ERR_PEER);
    return 0;
}

TEST(test_fork_child_does_not_hide_its_parents_death)
{
    struct board *b = rt_shared(sizeof(*b));
    pid_t pids[2];
    ck_assert_int_eq(snapshot_memory_give(1 << 20), 0);
    pid_t store = rt_world_start(2, be_parent, b, pids);
    ck_assert_int_eq(rt_wait(pids[0], 8000), 128 + SIGKILL);
    ck_assert_int_eq(rt_wait(pids[1], 8000), 0);
    rt_kill(store);
    ck_assert_int_lt(b->told_us - b->killed_us, 1 * MONO_S * suite_slow());
    /* The lock on the memory went with it, too. */
    int fd = open(getenv("DDP_SNAPSHOT_MEMORY"), O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    int tries = 1000; /* the child is at it */
    while (!mem_slots_lock(fd, 0, 1) && tries-- > 0)
        (void)usleep(10000);
    ck_assert_int_ge(tries, 0);
    ck_assert_int_eq(close(fd), 0);
}

SUITE("fork", "children", .limit_s = 60)
