/* clang-format off */
/* links: tests/lib/rt_world tests/lib/rt_comm */
/* links: worker_rt/snapshot/keeper worker_rt/snapshot/keeper_load */
/* links: worker_rt/snapshot/keeper_prove */
/* links: worker_rt/snapshot/keeper_find worker_rt/snapshot/list */
/* links: worker_rt/snapshot/keeper_ranks worker_rt/snapshot/keeper_share */
/* links: worker_rt/snapshot/keeper_agree worker_rt/snapshot/keeper_places */
/* links: worker_rt/snapshot/keeper_stripes worker_rt/snapshot/shared_file */
/* links: worker_rt/snapshot/device_copy worker_rt/snapshot/mem_slots */
/* links: worker_rt/snapshot/snapshot_dir worker_rt/snapshot/atomic_file */
/* links: worker_rt/snapshot/image worker_rt/snapshot/snapshot */
/* links: worker_rt/snapshot/load worker_rt/snapshot/safetensors */
/* links: rendezvous/base/json rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -luv -lcjson -lxxhash -pthread */
/* clang-format on */
/*
 * A worker that has children, as loaders of data do: they must not hide its
 * death from the other ranks, nor hold what the next worker needs.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/snapshot_memory.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

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

START_TEST(test_fork_child_does_not_hide_its_parents_death)
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
    int rc, tries = 1000; /* the child is at it */
    while ((rc = flock(fd, LOCK_EX | LOCK_NB)) != 0 && tries-- > 0)
        (void)usleep(10000);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fork");
    TCase *t = tcase_create("children");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_fork_child_does_not_hide_its_parents_death);
    suite_add_tcase(s, t);
    return suite_run(s);
}
