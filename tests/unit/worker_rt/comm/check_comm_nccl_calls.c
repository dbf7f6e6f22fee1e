/* links: tests/lib/{rt_world,rt_comm,rt_nccl} */
/* libs: -luv -pthread -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/* libs: -Wl,--wrap=nanosleep */
/*
 * What the NCCL communicator gives to NCCL: each call the right one, with the
 * right type, operation and count, and with the result that the CPU's
 * communicator has; what ends when a peer is gone; NCCL's own communicator; and
 * that a short wait takes no nap.
 */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_nccl.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/ddp.h"

#define DEADLINE_MS 20000
#define N           301
#define ROOM        (N * 8 * 8)

static int naps;

int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    naps++;
    return __real_nanosleep(t, left);
}

/* -- the right calls ------------------------------------------------------- */

/* nccl.h's numbers, or -1 where NCCL has no such type. */
static const struct {
    enum ddp_dtype dtype;
    int type;
} types[] = {
    {DDP_F64, 8},      {DDP_F32, 7},      {DDP_F16, 6},   {DDP_BF16, 9},
    {DDP_I64, 4},      {DDP_I32, 2},      {DDP_I8, 0},    {DDP_U8, 1},
    {DDP_F8_E4M3, 10}, {DDP_F8_E5M2, 11}, {DDP_U64, 5},   {DDP_U32, 3},
    {DDP_I16, -1},     {DDP_U16, -1},     {DDP_BOOL, -1},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static const struct {
    enum ddp_op op;
    int number;
} ops[] = {
    {DDP_SUM, 0}, {DDP_AVG, 4}, {DDP_MAX, 2}, {DDP_MIN, 3}, {DDP_PROD, 1},
};
#define OPS (sizeof(ops) / sizeof(ops[0]))

/* A rank: two communicators, and the same data on the device and not. */
struct both {
    struct ddp *d;
    struct ddp_comm *gpu;
    struct ddp_comm *cpu;
    uint8_t *in; /* on the device .. */
    uint8_t *out;
    uint8_t *host_in; /* .. and in host memory */
    uint8_t *host_out;
};

/* The last call that NCCL got, which was the only one since `calls`. */
static const struct fake_nccl_call *only_call(int calls)
{
    struct fake_nccl *n = rt_nccl();
    RT_CHECK(n->calls == calls + 1);
    RT_CHECK(n->calls <= FAKE_NCCL_CALLS);
    return &n->call[n->calls - 1];
}

static void forget_calls(void)
{
    rt_nccl()->calls = 0;
}

static void check_call(const char *name, size_t count, int type, int op)
{
    const struct fake_nccl_call *call = only_call(0);
    RT_CHECK(strcmp(call->name, name) == 0);
    RT_CHECK(call->count == count && call->type == type && call->op == op);
    forget_calls();
}

static void fill(struct both *b, size_t seed)
{
    for (size_t i = 0; i < ROOM; i++)
        b->host_in[i] = (uint8_t)((i * 37 + seed * 11 + i / 253) % 256);
    memcpy(rt_shadow(b->in), b->host_in, ROOM);
    memset(b->host_out, 0, ROOM);
    memset(rt_shadow(b->out), 0, ROOM);
}

static void check_same(struct both *b, size_t len)
{
    struct ddp_error e;
    RT_OK(ddp_comm_wait(b->gpu, &e), e);
    RT_CHECK(memcmp(rt_shadow(b->out), b->host_out, len) == 0);
}

/* In a world of two both add the same two operands, so the bits are the same,
 * whatever they mean. */
static void reduce_both(struct both *b, size_t t, size_t o)
{
    struct ddp_error e;
    enum ddp_dtype dtype = types[t].dtype;
    enum ddp_op op = ops[o].op;
    size_t len = N * ddp_dtype_size(dtype);
    fill(b, t + o + 3 * (size_t)ddp_rank(b->d));
    /* The lower rank's operand comes first on both. */
    RT_OK(ddp_comm_all_reduce(b->gpu, b->in, b->out, N, dtype, op, &e), e);
    check_call("AllReduce", N, types[t].type, ops[o].number);
    RT_OK(
        ddp_comm_all_reduce(b->cpu, b->host_in, b->host_out, N, dtype, op, &e),
        e);
    check_same(b, len);
    RT_OK(ddp_comm_reduce_scatter(b->gpu, b->in, b->out, N, dtype, op, &e), e);
    check_call("ReduceScatter", N, types[t].type, ops[o].number);
    RT_OK(ddp_comm_wait(b->gpu, &e), e);
}

static void move_both(struct both *b, size_t t)
{
    struct ddp_error e;
    enum ddp_dtype dtype = types[t].dtype;
    int type = types[t].type < 0 ? 1 : types[t].type, rank = ddp_rank(b->d);
    size_t len = N * ddp_dtype_size(dtype), n = types[t].type < 0 ? len : N;
    fill(b, t + (size_t)rank);
    RT_OK(ddp_comm_all_gather(b->gpu, b->in, b->out, N, dtype, &e), e);
    check_call("AllGather", n, type, -1);
    RT_OK(ddp_comm_all_gather(b->cpu, b->host_in, b->host_out, N, dtype, &e),
          e);
    check_same(b, 2 * len);
    fill(b, 5); /* the same on both ranks */
    RT_OK(ddp_comm_barrier(b->gpu, &e), e);
}

static struct both start(bool async)
{
    struct ddp_comm_opts opts = {.size = sizeof(opts), .async = async};
    struct both b = {.d = rt_init()};
    b.gpu = rt_join_nccl(b.d, opts);
    b.cpu = rt_join(b.d, 0);
    b.in = rt_device(ROOM);
    b.out = rt_device(ROOM);
    b.host_in = calloc(1, ROOM);
    b.host_out = calloc(1, ROOM);
    RT_CHECK(b.host_in != NULL && b.host_out != NULL);
    return b;
}

static void stop(struct both *b)
{
    ddp_comm_free(b->cpu);
    ddp_comm_free(b->gpu);
    ddp_free(b->d);
    free(b->host_in);
    free(b->host_out);
}

static int call_all(int rank, void *arg)
{
    struct both b = start(*(bool *)arg);
    (void)rank;
    for (size_t t = 0; t < TYPES; t++) {
        for (size_t o = 0; o < OPS && types[t].type >= 0; o++)
            reduce_both(&b, t, o);
        move_both(&b, t);
    }
    stop(&b);
    RT_CHECK(rt_nccl()->aborts == 0);
    return 0;
}

/* Every type, every operation, waiting and not. */
TEST_LOOP(test_nccl_calls_are_the_right_ones, 0, 2)
{
    bool async = _i == 1;
    rt_world_run(2, call_all, &async, DEADLINE_MS);
}

/* Three ranks, exact numbers: each gets its part of the sum. */
static int scatter(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    int world = ddp_world(b.d);
    int32_t *in = rt_shadow(b.in), *out = rt_shadow(b.out);
    (void)arg;
    for (int i = 0; i < N * world; i++)
        in[i] = i * (rank + 1);
    RT_OK(ddp_comm_reduce_scatter(b.gpu, b.in, b.out, N, DDP_I32, DDP_SUM, &e),
          e);
    for (int i = 0; i < N; i++)
        RT_CHECK(out[i] == (rank * N + i) * (world * (world + 1) / 2));
    stop(&b);
    return 0;
}

TEST_LOOP(test_nccl_calls_scatter, 2, 5)
{
    rt_world_run(_i, scatter, NULL, DEADLINE_MS);
}

/* F8 came with NCCL 2.24: an older one is told of, and nothing breaks. */
static int old_nccl(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    (void)rank, (void)arg;
    rt_nccl()->version = 22300;
    RT_CHECK(ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F8_E5M2, DDP_SUM,
                                 &e) != 0);
    RT_CHECK(e.code == DDP_ERR_USAGE && strstr(e.text, "2.24") != NULL);
    RT_OK(ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_BF16, DDP_SUM, &e), e);
    stop(&b);
    return 0;
}

TEST(test_nccl_calls_of_f8_need_a_newer_one)
{
    rt_world_run(2, old_nccl, NULL, DEADLINE_MS);
}

/* -- what ends ------------------------------------------------------------- */

static int scatter_some(struct both *b, struct ddp_error *e)
{
    return ddp_comm_reduce_scatter(b->gpu, b->in, b->out, N, DDP_BF16, DDP_AVG,
                                   e);
}

static int lose_peer(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    (void)arg;
    RT_OK(ddp_comm_barrier(b.gpu, &e), e);
    if (rank == 1) {
        (void)usleep(100000);
        (void)raise(SIGKILL);
    }
    RT_CHECK(scatter_some(&b, &e) != 0);
    RT_CHECK(e.code == DDP_ERR_PEER &&
             strcmp(e.text, "reduce-scatter: rank 1 died") == 0);
    RT_CHECK(rt_nccl()->aborts == 1);
    RT_CHECK(ddp_comm_nccl(b.gpu) == NULL);
    return 0;
}

CASE("trouble", .limit_s = 60)

/* A peer that is killed ends the call, and NCCL is aborted. */
TEST(test_nccl_calls_end_with_their_peer)
{
    pid_t pids[2], store = rt_world_start(2, lose_peer, NULL, pids);
    ck_assert_int_eq(rt_wait(pids[1], DEADLINE_MS), 128 + SIGKILL);
    ck_assert_int_eq(rt_wait(pids[0], DEADLINE_MS), 0);
    rt_kill(store);
}

/* Aborted by another thread while it waits for a peer that computes. */
static int abort_call(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    pthread_t t;
    (void)arg;
    RT_OK(ddp_comm_barrier(b.gpu, &e), e);
    if (rank == 1) {
        (void)usleep(400000);
        RT_CHECK(ddp_comm_barrier(b.gpu, &e) != 0);
        RT_CHECK(strcmp(e.text, "wait: rank 0 aborted it") == 0);
        return 0;
    }
    RT_CHECK(pthread_create(&t, NULL, rt_abort_soon, b.gpu) == 0);
    RT_CHECK(scatter_some(&b, &e) != 0 && e.code == DDP_ERR_ABORTED);
    RT_CHECK(rt_nccl()->aborts == 1);
    RT_CHECK(pthread_join(t, NULL) == 0);
    return 0;
}

TEST(test_nccl_calls_end_when_they_are_aborted)
{
    rt_world_run(2, abort_call, NULL, DEADLINE_MS);
}

/* -- NCCL's own communicator ----------------------------------------------- */

typedef int all_reduce_fn(const void *from,
                          void *to,
                          size_t count,
                          int type,
                          int op,
                          void *comm,
                          void *stream);

/* What the program enqueues itself is waited for, also by a communicator that
 * waits for its own calls. */
static int enqueue(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(*(bool *)arg);
    all_reduce_fn *all_reduce;
    void *lib = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    RT_CHECK(lib != NULL);
    void *found = dlsym(lib, "ncclAllReduce");
    memcpy(&all_reduce, &found, sizeof(found));
    int64_t *in = rt_shadow(b.in), *out = rt_shadow(b.out);
    for (int turn = 0; turn < 2; turn++) {
        in[0] = rank + 1;
        out[0] = 77;
        void *raw = ddp_comm_nccl(b.gpu);
        RT_CHECK(raw != NULL);
        RT_CHECK(all_reduce(b.in, b.out, 1, 4, 0, raw, NULL) == 0);
        RT_CHECK(out[0] == 77); /* nobody has waited yet */
        RT_OK(ddp_comm_wait(b.gpu, &e), e);
        RT_CHECK(out[0] == 3);
    }
    RT_CHECK(ddp_comm_nccl(b.cpu) == NULL);
    stop(&b);
    return 0;
}

CASE("work")

TEST_LOOP(test_nccl_calls_of_the_program_are_waited_for, 0, 2)
{
    bool async = _i == 1;
    rt_world_run(2, enqueue, &async, DEADLINE_MS);
}

static int alone(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    uint8_t *in = rt_shadow(b.in), *out = rt_shadow(b.out);
    (void)rank, (void)arg;
    RT_CHECK(ddp_comm_nccl(b.gpu) == NULL);
    for (int i = 0; i < 3; i++) {
        in[0] = (uint8_t)(i + 1);
        int rc = i == 0 ? ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32,
                                              DDP_AVG, &e)
                 : i == 1
                     ? ddp_comm_reduce_scatter(b.gpu, b.in, b.out, N, DDP_F32,
                                               DDP_MAX, &e)
                     : ddp_comm_all_gather(b.gpu, b.in, b.out, N, DDP_F32, &e);
        RT_OK(rc, e);
        RT_CHECK(out[0] == i + 1);
    }
    stop(&b);
    return 0;
}

TEST(test_nccl_calls_of_one_rank_copy)
{
    rt_world_run(1, alone, NULL, DEADLINE_MS);
}

/* -- naps ------------------------------------------------------------------ */

static int wait_shortly(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    int without = 0;
    (void)rank, (void)arg;
    rt_nccl()->busy_us = 300;
    for (int i = 0; i < 50; i++) {
        naps = 0;
        RT_OK(ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32, DDP_SUM, &e),
              e);
        without += naps == 0;
    }
    RT_CHECK(without > 0); /* not all: the other rank may get no CPU */
    naps = 0;
    rt_nccl()->busy_us = 50000;
    RT_OK(ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32, DDP_SUM, &e), e);
    RT_CHECK(naps > 10);
    stop(&b);
    return 0;
}

/* A collective of 300 us is waited for without a nap, which takes longer than
 * it; one of 50 ms does not keep a CPU busy. */
TEST(test_nccl_calls_wait_shortly_without_a_nap)
{
    rt_world_run(2, wait_shortly, NULL, DEADLINE_MS);
}

SUITE("comm_nccl_calls", "work", .limit_s = 60)
