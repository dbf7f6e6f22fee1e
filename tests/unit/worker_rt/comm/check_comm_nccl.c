/* links: tests/lib/{rt_world,rt_comm,rt_nccl} */
/* libs: -luv -pthread -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * The NCCL communicator between processes, on a driver and an NCCL that are
 * not real (tests/lib/fake_cuda, fake_nccl): every way in which it starts,
 * works, fails and ends.
 */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/fake_cuda.h"
#include "tests/lib/fake_nccl.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_nccl.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/nccl.h"
#include "worker_rt/ddp.h"

#define DEADLINE_MS 20000
#define N           1000

/* -- work ------------------------------------------------------------------ */

static void sum_all(struct ddp_comm *c, int rank, int world, void *data)
{
    struct ddp_error e;
    float *f = rt_shadow(data);
    double *g = rt_shadow(data);
    int64_t *k = rt_shadow(data);
    int ranks = world * (world - 1) / 2; /* their sum */
    for (int i = 0; i < N; i++)
        f[i] = (float)(i + rank);
    RT_OK(ddp_comm_allreduce(c, data, N, DDP_F32, &e), e);
    RT_OK(ddp_comm_wait(c, &e), e);
    for (int i = 0; i < N; i++)
        RT_CHECK(f[i] == (float)(i * world + ranks));
    for (int i = 0; i < N; i++)
        g[i] = i - rank;
    RT_OK(ddp_comm_allreduce(c, data, N, DDP_F64, &e), e);
    RT_OK(ddp_comm_wait(c, &e), e);
    for (int i = 0; i < N; i++)
        RT_CHECK(g[i] == i * world - ranks);
    for (int i = 0; i < N; i++)
        k[i] = (INT64_C(1) << 60) + rank;
    RT_OK(ddp_comm_allreduce(c, data, N, DDP_I64, &e), e);
    RT_OK(ddp_comm_wait(c, &e), e);
    uint64_t sum = (uint64_t)world << 60; /* wraps around */
    RT_CHECK((uint64_t)k[N - 1] == sum + (uint64_t)ranks);
}

static void move_all(struct ddp_comm *c, int rank, int world, uint8_t *data)
{
    struct ddp_error e;
    uint8_t *mine = rt_shadow(data), *all = mine + N;
    memset(mine, rank + 1, N);
    RT_OK(ddp_comm_allgather(c, data, N, data + N, &e), e);
    RT_OK(ddp_comm_wait(c, &e), e);
    for (int r = 0; r < world; r++)
        RT_CHECK(all[r * N] == r + 1 && all[(r + 1) * N - 1] == r + 1);
    RT_OK(ddp_comm_broadcast(c, data, N, world - 1, &e), e);
    RT_OK(ddp_comm_wait(c, &e), e);
    RT_CHECK(mine[0] == world && mine[N - 1] == world);
}

struct manner {
    int world;
    bool async;
    int per_id; /* ranks for each unique id; 0: as it is */
};

static int work(int rank, void *arg)
{
    const struct manner *m = arg;
    struct ddp_error e;
    if (m->per_id > 0)
        comm_nccl_ranks_per_id = m->per_id;
    rt_nccl()->slow_at = 2;
    struct ddp *d = rt_init();
    struct ddp_comm *c =
        rt_join_nccl(d, (struct ddp_comm_opts){.async = m->async});
    void *host = calloc(N * 8, 8), *device = rt_device(N * 8 * 8);
    RT_CHECK(host != NULL);
    sum_all(c, rank, m->world, device);
    move_all(c, rank, m->world, device);
    RT_OK(ddp_comm_barrier(c, &e), e);
    sum_all(c, rank, m->world, host);
    move_all(c, rank, m->world, host);
    /* A wait is this rank's own affair. */
    for (int i = 0; i < rank; i++)
        RT_OK(ddp_comm_wait(c, &e), e);
    RT_OK(ddp_comm_barrier(c, &e), e);
    RT_CHECK(ddp_comm_allgather(c, host, N, device, &e) != 0 &&
             e.code == DDP_ERR_USAGE);
    sum_all(c, rank, m->world, device); /* it is whole */
    ddp_comm_free(c);
    ddp_free(d);
    RT_CHECK(!rt_nccl()->wrong_blocking && rt_nccl()->aborts == 0);
    RT_CHECK(rt_nccl()->destroys == (m->world > 1));
    if (m->per_id > 0) {
        int ids = (m->world + m->per_id - 1) / m->per_id;
        RT_CHECK(rt_nccl()->ids_given == ids && rt_nccl()->ids <= 1);
    }
    free(host);
    return 0;
}

static struct manner manners[] = {
    {1, false, 0}, {2, false, 0}, {3, true, 0},
    {4, false, 0}, {1, true, 0},  {5, false, 2},
};

/* Device and host memory, waiting or not, alone, with one id and with three. */
TEST_EACH(test_nccl_collectives_are_right, manners)
{
    rt_world_run(manners[_i].world, work, &manners[_i], DEADLINE_MS);
}

/* -- death ----------------------------------------------------------------- */

struct board {
    int64_t killed_us;
    int64_t at_us[RT_RANKS_MAX];
};

/* Rank 2 is killed while the others wait for it in NCCL, which would never end.
 */
static int outlive(int rank, void *arg)
{
    struct board *b = arg;
    struct ddp_error e;
    struct ddp_comm *c = rt_join_nccl(rt_init(), (struct ddp_comm_opts){0});
    void *device = rt_device(N * 4);
    RT_OK(ddp_comm_allreduce(c, device, N, DDP_F32, &e), e);
    if (rank == 2) {
        (void)usleep(150000);
        b->killed_us = mono_now_us();
        (void)raise(SIGKILL);
    }
    RT_CHECK(ddp_comm_allreduce(c, device, N, DDP_F32, &e) != 0);
    b->at_us[rank] = mono_now_us();
    RT_CHECK(e.code == DDP_ERR_PEER);
    RT_CHECK(strcmp(e.text, "all-reduce: rank 2 died") == 0);
    RT_CHECK(rt_nccl()->aborts == 1);
    RT_CHECK(ddp_comm_barrier(c, &e) != 0 && e.code == DDP_ERR_PEER);
    ddp_comm_free(c);
    RT_CHECK(rt_nccl()->aborts == 1 && rt_nccl()->destroys == 0);
    return 0;
}

CASE("trouble", .limit_s = 60)

TEST(test_nccl_killed_peer_ends_the_wait)
{
    struct board *b = rt_shared(sizeof(*b));
    pid_t pids[4], store = rt_world_start(4, outlive, b, pids);
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(rt_wait(pids[r], DEADLINE_MS),
                         r == 2 ? 128 + SIGKILL : 0);
    rt_kill(store);
    int64_t last_us = 0;
    for (int r = 0; r < 4; r++)
        last_us = b->at_us[r] > last_us ? b->at_us[r] : last_us;
    printf("check_comm_nccl: a rank was killed, the last survivor's error came "
           "%.1f ms later\n",
           (double)(last_us - b->killed_us) / 1000);
    ck_assert_int_lt(last_us - b->killed_us, suite_room_us(1000000));
}

/* NCCL sees a socket end before the control does: the control's story counts,
 * as it says whose fault it is. */
static int hear_nccl_first(int rank, void *arg)
{
    struct ddp_error e;
    (void)arg;
    struct ddp_comm *c = rt_join_nccl(rt_init(), (struct ddp_comm_opts){0});
    void *device = rt_device(N * 4);
    if (rank == 1) {
        (void)usleep(50000);
        (void)raise(SIGKILL);
    }
    rt_nccl()->error_at = 1;
    (void)usleep(30000);
    RT_CHECK(ddp_comm_allreduce(c, device, N, DDP_F32, &e) != 0);
    RT_CHECK(strcmp(e.text, "all-reduce: rank 1 died") == 0);
    return 0;
}

TEST(test_nccl_says_remote_error_the_control_says_who)
{
    pid_t pids[2], store = rt_world_start(2, hear_nccl_first, NULL, pids);
    ck_assert_int_eq(rt_wait(pids[1], DEADLINE_MS), 128 + SIGKILL);
    ck_assert_int_eq(rt_wait(pids[0], DEADLINE_MS), 0);
    rt_kill(store);
}

/* -- other trouble --------------------------------------------------------- */

static int fail_in_nccl(int rank, void *arg)
{
    struct ddp_error e;
    (void)arg;
    struct ddp_comm *c = rt_join_nccl(rt_init(), (struct ddp_comm_opts){0});
    void *device = rt_device(N * 4);
    rt_nccl()->error_at = rank == 0 ? 1 : 0;
    RT_CHECK(ddp_comm_allreduce(c, device, N, DDP_F32, &e) != 0);
    RT_CHECK(e.code == DDP_ERR_PEER && rt_nccl()->aborts == 1);
    RT_CHECK(strcmp(e.text, rank == 0
                                ? "all-reduce: NCCL: remote process exited: "
                                  "line one line two"
                                : "all-reduce: rank 0 failed") == 0);
    ddp_comm_free(c);
    return 0;
}

TEST(test_nccl_own_error_spreads)
{
    rt_world_run(3, fail_in_nccl, NULL, DEADLINE_MS);
}

static int break_gpu(int rank, void *arg)
{
    struct ddp_error e;
    (void)arg;
    struct ddp_comm *c = rt_join_nccl(rt_init(), (struct ddp_comm_opts){0});
    void *device = rt_device(N * 4);
    rt_cuda()->broken = rank == 1;
    RT_CHECK(ddp_comm_allreduce(c, device, N, DDP_F32, &e) != 0);
    RT_CHECK(e.code == (rank == 1 ? DDP_ERR_IO : DDP_ERR_PEER));
    RT_CHECK(strstr(e.text, rank == 1 ? "illegal memory access"
                                      : "rank 1 failed") != NULL);
    ddp_comm_free(c);
    return 0;
}

TEST(test_nccl_broken_gpu_is_told)
{
    rt_world_run(2, break_gpu, NULL, DEADLINE_MS);
}

static int come_late(int rank, void *arg)
{
    struct ddp_error e;
    (void)arg;
    struct ddp_comm_opts opts = {.timeout_ms = 200, .async = true};
    struct ddp_comm *c = rt_join_nccl(rt_init(), opts);
    void *device = rt_device(N * 4);
    if (rank == 1)
        (void)usleep(500000);
    int rc = ddp_comm_allreduce(c, device, N, DDP_F32, &e);
    if (rc == 0)
        rc = ddp_comm_wait(c, &e);
    RT_CHECK(rc != 0 && rt_nccl()->aborts == 1);
    RT_CHECK(e.code == (rank == 1 ? DDP_ERR_PEER : DDP_ERR_TIMEOUT));
    ddp_comm_free(c);
    return 0;
}

TEST(test_nccl_time_out_ends_the_wait)
{
    rt_world_run(2, come_late, NULL, DEADLINE_MS);
}

static int called_off(int rank, void *arg)
{
    struct ddp_error e;
    (void)arg;
    struct ddp_comm *c = rt_join_nccl(rt_init(), (struct ddp_comm_opts){0});
    void *device = rt_device(N * 4);
    pthread_t t = 0;
    if (rank == 0)
        RT_CHECK(pthread_create(&t, NULL, rt_abort_soon, c) == 0);
    if (rank == 1)
        (void)usleep(400000);
    int64_t since_us = mono_now_us();
    RT_CHECK(ddp_comm_allreduce(c, device, N, DDP_F32, &e) != 0);
    RT_CHECK(e.code == (rank == 0 ? DDP_ERR_ABORTED : DDP_ERR_PEER));
    RT_CHECK(rank == 1 || mono_now_us() - since_us < 350000);
    RT_CHECK(rt_nccl()->aborts == 1);
    if (rank == 0)
        RT_CHECK(pthread_join(t, NULL) == 0);
    ddp_comm_free(c);
    return 0;
}

TEST(test_nccl_abort_ends_blocked_calls_everywhere)
{
    rt_world_run(3, called_off, NULL, DEADLINE_MS);
}

/* -- the start ------------------------------------------------------------- */

enum hindrance {
    NEVER_STARTS,
    START_FAILS,
    NO_ID,
    NO_CONTEXT,
    NO_LIBRARY,
};

static const struct {
    int code; /* rank 0's */
    const char *text;
    int code_of_others;
} start_errors[] = {
    [NEVER_STARTS] = {DDP_ERR_TIMEOUT, "start of NCCL did not finish in time",
                      DDP_ERR_TIMEOUT},
    [START_FAILS] = {DDP_ERR_IO, "start of NCCL: NCCL: unhandled system error",
                     DDP_ERR_PEER},
    [NO_ID] = {DDP_ERR_IO, "start of NCCL: NCCL: unhandled", DDP_ERR_PEER},
    [NO_CONTEXT] = {DDP_ERR_CONFIG, "no GPU has been chosen", DDP_ERR_CONFIG},
    [NO_LIBRARY] = {DDP_ERR_CONFIG, "cannot load NCCL", DDP_ERR_CONFIG},
};

static int fail_to_start(int rank, void *arg)
{
    enum hindrance h = *(enum hindrance *)arg;
    struct ddp_error e;
    int64_t since_us = mono_now_us();
    rt_nccl()->never_starts = h == NEVER_STARTS;
    rt_nccl()->start_fails = h == START_FAILS && rank == 0;
    rt_nccl()->no_id = h == NO_ID;
    rt_cuda()->no_context = h == NO_CONTEXT;
    if (h == NO_LIBRARY)
        RT_CHECK(setenv("DDP_NCCL_LIBRARY", "/nowhere.so", 1) == 0);
    struct ddp_comm_opts opts = {.init_timeout_ms = 700};
    RT_CHECK(rt_try_nccl(rt_init(), opts, &e) == NULL);
    int code = start_errors[h].code_of_others;
    RT_CHECK(rank > 0 ? e.code == code || e.code == DDP_ERR_PEER
                      : e.code == start_errors[h].code ||
                            (h == NEVER_STARTS && e.code == DDP_ERR_PEER));
    RT_CHECK(rank > 0 || e.code == DDP_ERR_PEER ||
             strstr(e.text, start_errors[h].text) != NULL);
    RT_CHECK(mono_now_us() - since_us < suite_room_us(3000000));
    RT_CHECK(rt_nccl()->aborts <= 1 && rt_nccl()->destroys == 0);
    return 0;
}

TEST_LOOP(test_nccl_that_does_not_start_is_told, NEVER_STARTS, NO_LIBRARY + 1)
{
    enum hindrance h = (enum hindrance)_i;
    rt_world_run(3, fail_to_start, &h, DEADLINE_MS);
}

SUITE("comm_nccl", "work", .limit_s = 60)
