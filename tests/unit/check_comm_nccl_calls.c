/* clang-format off */
/* links: tests/lib/rt_world tests/lib/rt_comm tests/lib/rt_nccl */
/* libs: -luv -pthread -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/* libs: -Wl,--wrap=nanosleep -Wl,--wrap=calloc */
/* clang-format on */
/*
 * What the NCCL communicator gives to NCCL: each call the right one, with the
 * right type, operation, count and peer, and with the result that the CPU's
 * communicator has; what ends when a peer is gone; ranks that call different
 * things; NCCL's own communicator; and that a short wait takes no nap.
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

static int scarce; /* so many allocations fail */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return scarce > 0 && scarce-- > 0 ? NULL : __real_calloc(n, size);
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

static void
check_call(const char *name, size_t count, int type, int op, int peer)
{
    const struct fake_nccl_call *call = only_call(0);
    RT_CHECK(strcmp(call->name, name) == 0);
    RT_CHECK(call->count == count && call->type == type);
    RT_CHECK(call->op == op && call->peer == peer && call->group == 0);
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
    size_t len = N * reduce_size(dtype);
    fill(b, t + o + 3 * (size_t)ddp_rank(b->d));
    /* The lower rank's operand comes first on both. */
    RT_OK(ddp_comm_all_reduce(b->gpu, b->in, b->out, N, dtype, op, &e), e);
    check_call("AllReduce", N, types[t].type, ops[o].number, -1);
    RT_OK(
        ddp_comm_all_reduce(b->cpu, b->host_in, b->host_out, N, dtype, op, &e),
        e);
    check_same(b, len);
    RT_OK(ddp_comm_reduce_scatter(b->gpu, b->in, b->out, N, dtype, op, &e), e);
    check_call("ReduceScatter", N, types[t].type, ops[o].number, -1);
    RT_OK(ddp_comm_wait(b->gpu, &e), e);
}

static void move_both(struct both *b, size_t t)
{
    struct ddp_error e;
    enum ddp_dtype dtype = types[t].dtype;
    int type = types[t].type < 0 ? 1 : types[t].type, rank = ddp_rank(b->d);
    size_t len = N * reduce_size(dtype), n = types[t].type < 0 ? len : N;
    fill(b, t + (size_t)rank);
    RT_OK(ddp_comm_all_gather(b->gpu, b->in, b->out, N, dtype, &e), e);
    check_call("AllGather", n, type, -1, -1);
    RT_OK(ddp_comm_all_gather(b->cpu, b->host_in, b->host_out, N, dtype, &e),
          e);
    check_same(b, 2 * len);
    RT_OK(ddp_comm_all_to_all(b->gpu, b->in, b->out, N, dtype, &e), e);
    for (int i = 0; i < 4; i++) {
        const struct fake_nccl_call *call = &rt_nccl()->call[i];
        RT_CHECK(strcmp(call->name, i % 2 == 0 ? "Send" : "Recv") == 0);
        RT_CHECK(call->count == n && call->type == type);
        RT_CHECK(call->peer == i / 2 && call->group > 0);
        RT_CHECK(call->group == rt_nccl()->call[0].group);
    }
    RT_CHECK(rt_nccl()->calls == 4);
    forget_calls();
    RT_OK(ddp_comm_all_to_all(b->cpu, b->host_in, b->host_out, N, dtype, &e),
          e);
    check_same(b, 2 * len);
    if (rank == 0)
        RT_OK(ddp_comm_send(b->gpu, b->in, N, dtype, 1, &e), e);
    else
        RT_OK(ddp_comm_recv(b->gpu, b->out, N, dtype, 0, &e), e);
    check_call(rank == 0 ? "Send" : "Recv", n, type, -1, 1 - rank);
    RT_OK(ddp_comm_wait(b->gpu, &e), e);
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
START_TEST(test_nccl_calls_are_the_right_ones)
{
    bool async = _i == 1;
    rt_world_run(2, call_all, &async, DEADLINE_MS);
}
END_TEST

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
    RT_OK(ddp_comm_all_to_all(b.gpu, b.in, b.out, N, DDP_I32, &e), e);
    for (int i = 0; i < N * world; i++)
        RT_CHECK(out[i] == (rank * N + i % N) * (i / N + 1));
    stop(&b);
    return 0;
}

START_TEST(test_nccl_calls_scatter_and_exchange)
{
    rt_world_run(_i, scatter, NULL, DEADLINE_MS);
}
END_TEST

/* Both ways at once, which only a group can. */
static int exchange(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(*(bool *)arg);
    uint16_t *in = rt_shadow(b.in), *out = rt_shadow(b.out);
    int peer = 1 - rank;
    for (int i = 0; i < 2 * N; i++)
        in[i] = (uint16_t)(i * 3 + rank);
    RT_OK(ddp_comm_group_start(b.gpu, &e), e);
    RT_OK(ddp_comm_send(b.gpu, b.in, N, DDP_F16, peer, &e), e);
    RT_OK(ddp_comm_send(b.gpu, b.in + 2 * N, N, DDP_BF16, peer, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, b.out, N, DDP_F16, peer, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, b.out + 2 * N, N, DDP_BF16, peer, &e), e);
    RT_CHECK(rt_nccl()->calls == 0);
    RT_CHECK(ddp_comm_nccl(b.gpu) == NULL); /* the group was not given yet */
    RT_OK(ddp_comm_group_end(b.gpu, &e), e);
    RT_CHECK(ddp_comm_nccl(b.gpu) != NULL);
    RT_OK(ddp_comm_wait(b.gpu, &e), e);
    RT_CHECK(rt_nccl()->calls == 4 && rt_nccl()->call[0].group > 0);
    for (int i = 0; i < 2 * N; i++)
        RT_CHECK(out[i] == (uint16_t)(i * 3 + peer));
    /* Host memory goes over TCP; a group has one kind of memory. */
    RT_OK(ddp_comm_group_start(b.gpu, &e), e);
    RT_OK(ddp_comm_send(b.gpu, b.host_in, N, DDP_F16, peer, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, b.out, N, DDP_F16, peer, &e), e);
    RT_CHECK(ddp_comm_group_end(b.gpu, &e) != 0 && e.code == DDP_ERR_USAGE);
    b.host_in[0] = (uint8_t)(rank + 1);
    RT_OK(ddp_comm_group_start(b.gpu, &e), e);
    RT_OK(ddp_comm_send(b.gpu, b.host_in, N, DDP_F16, peer, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, b.host_out, N, DDP_F16, peer, &e), e);
    RT_OK(ddp_comm_group_end(b.gpu, &e), e);
    RT_CHECK(b.host_out[0] == peer + 1 && rt_nccl()->calls == 4);
    stop(&b);
    return 0;
}

START_TEST(test_nccl_calls_group_sends_and_receives)
{
    bool async = _i == 1;
    rt_world_run(2, exchange, &async, DEADLINE_MS);
}
END_TEST

/* Each to each of the others, but rank 0 has nothing for them, nor they for it.
 */
static void exchange_but_with_0(struct ddp_comm *comm,
                                int rank,
                                const uint8_t *in,
                                uint8_t *out)
{
    struct ddp_error e;
    RT_OK(ddp_comm_group_start(comm, &e), e);
    for (int peer = 0; peer < 4; peer++) {
        size_t n = rank == 0 || peer == 0 ? 0 : N;
        if (peer == rank)
            continue;
        RT_OK(ddp_comm_send(comm, in, n, DDP_U8, peer, &e), e);
        RT_OK(ddp_comm_recv(comm, out + N * peer, n, DDP_U8, peer, &e), e);
    }
    RT_OK(ddp_comm_group_end(comm, &e), e);
    RT_OK(ddp_comm_wait(comm, &e), e);
}

static void check_from_all_but_0(int rank, const uint8_t *out)
{
    for (int i = 0; i < 4 * N; i++)
        RT_CHECK(out[i] ==
                 (rank == 0 || i / N == 0 || i / N == rank ? 0 : i / N + 1));
}

/* Ranks 0 and 2 have no connection, nor have 1 and 3. */
static int exchange_nothing(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(*(bool *)arg);
    int across = (rank + 2) % 4;
    memset(rt_shadow(b.in), rank + 1, N);
    memset(b.host_in, rank + 1, N);
    RT_OK(ddp_comm_send(b.gpu, b.in, 0, DDP_F32, across, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, NULL, 0, DDP_F32, across, &e), e);
    RT_CHECK(rt_nccl()->calls == 0);
    exchange_but_with_0(b.gpu, rank, b.in, b.out);
    RT_CHECK(rt_nccl()->calls == (rank == 0 ? 0 : 4));
    check_from_all_but_0(rank, rt_shadow(b.out));
    RT_OK(ddp_comm_group_start(b.gpu, &e), e);
    RT_OK(ddp_comm_recv(b.gpu, b.out, 0, DDP_F32, across, &e), e);
    RT_OK(ddp_comm_send(b.gpu, b.in, 0, DDP_F32, across, &e), e);
    RT_OK(ddp_comm_group_end(b.gpu, &e), e);
    RT_OK(ddp_comm_barrier(b.gpu, &e), e);
    RT_OK(ddp_comm_barrier(b.cpu, &e), e); /* all have left the one before */
    /* One that was aborted fails, with nothing to do, too. */
    ddp_comm_abort(b.gpu);
    RT_CHECK(ddp_comm_send(b.gpu, b.in, 0, DDP_F32, across, &e) != 0);
    RT_CHECK(e.code == DDP_ERR_ABORTED || e.code == DDP_ERR_PEER);
    stop(&b);
    return 0;
}

/* A count of 0 needs no connection, and no message that the other rank would
 * look for elsewhere. */
START_TEST(test_nccl_calls_of_nothing_are_none)
{
    bool async = _i == 1;
    rt_world_run(4, exchange_nothing, &async, DEADLINE_MS);
}
END_TEST

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

START_TEST(test_nccl_calls_of_f8_need_a_newer_one)
{
    rt_world_run(2, old_nccl, NULL, DEADLINE_MS);
}
END_TEST

/* -- what ends ------------------------------------------------------------- */

enum victim_call {
    OF_SCATTER,
    OF_ALL_TO_ALL,
    OF_SEND,
    OF_RECV,
    OF_GROUP,
    OF_ALL
};

static int call_one(struct both *b, enum victim_call which, struct ddp_error *e)
{
    switch (which) {
    case OF_SCATTER:
        return ddp_comm_reduce_scatter(b->gpu, b->in, b->out, N, DDP_BF16,
                                       DDP_AVG, e);
    case OF_ALL_TO_ALL:
        return ddp_comm_all_to_all(b->gpu, b->in, b->out, N, DDP_U8, e);
    case OF_SEND:
        return ddp_comm_send(b->gpu, b->in, N, DDP_U8, 1, e);
    case OF_RECV:
        return ddp_comm_recv(b->gpu, b->out, N, DDP_U8, 1, e);
    case OF_GROUP:
        if (ddp_comm_group_start(b->gpu, e) != 0 ||
            ddp_comm_send(b->gpu, b->in, N, DDP_U8, 1, e) != 0 ||
            ddp_comm_recv(b->gpu, b->out, N, DDP_U8, 1, e) != 0)
            return 0;
        return ddp_comm_group_end(b->gpu, e);
    case OF_ALL:
        break;
    }
    return 0;
}

static int lose_peer(int rank, void *arg)
{
    static const char *const texts[] = {"reduce-scatter", "all-to-all", "send",
                                        "receive", "group"};
    enum victim_call which = *(enum victim_call *)arg;
    struct ddp_error e;
    struct both b = start(false);
    char wanted[64];
    RT_OK(ddp_comm_barrier(b.gpu, &e), e);
    if (rank == 1) {
        (void)usleep(100000);
        (void)raise(SIGKILL);
    }
    RT_CHECK(call_one(&b, which, &e) != 0);
    (void)snprintf(wanted, sizeof(wanted), "%s: rank 1 died", texts[which]);
    RT_CHECK(e.code == DDP_ERR_PEER && strcmp(e.text, wanted) == 0);
    RT_CHECK(rt_nccl()->aborts == 1);
    RT_CHECK(ddp_comm_nccl(b.gpu) == NULL);
    return 0;
}

/* A peer that is killed ends each of them, and NCCL is aborted. */
START_TEST(test_nccl_calls_end_with_their_peer)
{
    enum victim_call which = (enum victim_call)_i;
    pid_t pids[2], store = rt_world_start(2, lose_peer, &which, pids);
    ck_assert_int_eq(rt_wait(pids[1], DEADLINE_MS), 128 + SIGKILL);
    ck_assert_int_eq(rt_wait(pids[0], DEADLINE_MS), 0);
    rt_kill(store);
}
END_TEST

/* Aborted by another thread while it waits for a peer that computes. */
static int abort_call(int rank, void *arg)
{
    enum victim_call which = *(enum victim_call *)arg;
    struct ddp_error e;
    struct both b = start(false);
    pthread_t t;
    RT_OK(ddp_comm_barrier(b.gpu, &e), e);
    if (rank == 1) {
        (void)usleep(400000);
        RT_CHECK(ddp_comm_barrier(b.gpu, &e) != 0);
        RT_CHECK(strcmp(e.text, "wait: rank 0 aborted it") == 0);
        return 0;
    }
    RT_CHECK(pthread_create(&t, NULL, rt_abort_soon, b.gpu) == 0);
    RT_CHECK(call_one(&b, which, &e) != 0 && e.code == DDP_ERR_ABORTED);
    RT_CHECK(rt_nccl()->aborts == 1);
    RT_CHECK(pthread_join(t, NULL) == 0);
    return 0;
}

START_TEST(test_nccl_calls_end_when_they_are_aborted)
{
    enum victim_call which = (enum victim_call)_i;
    rt_world_run(2, abort_call, &which, DEADLINE_MS);
}
END_TEST

/* -- different calls ------------------------------------------------------- */

static const char *const differences[] = {
    "(F32, MAX, root 0)",
    "reduce-scatter of length 301 (F32, SUM, root 0)",
    "all-to-all of length 301 (F32, SUM, root 0)",
    "broadcast of length 301 (bytes, SUM, root 1)",
    "rank 0 sends count 301 of dtype F32, rank 1 receives count 300 of dtype "
    "F32",
    "rank 0 sends count 301 of dtype F32, rank 1 receives count 301 of dtype "
    "I32",
};

static int differ(int rank, void *arg)
{
    int i = *(int *)arg, rc = 0;
    struct ddp_error e;
    RT_CHECK(setenv("DDP_CHECK", "1", 1) == 0);
    struct both b = start(false);
    RT_OK(ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32, DDP_MIN, &e), e);
    RT_OK(call_one(&b, OF_ALL_TO_ALL, &e), e);
    bool one = rank == 1;
    if (i == 0)
        rc = ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32,
                                 one ? DDP_MAX : DDP_SUM, &e);
    else if (i == 3)
        rc = ddp_comm_broadcast(b.gpu, b.in, N, rank, &e);
    else if (i < 3 && !one)
        rc = ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32, DDP_SUM, &e);
    else if (i == 1)
        rc = ddp_comm_reduce_scatter(b.gpu, b.in, b.out, N, DDP_F32, DDP_SUM,
                                     &e);
    else if (i == 2)
        rc = ddp_comm_all_to_all(b.gpu, b.in, b.out, N, DDP_F32, &e);
    else if (!one)
        rc = ddp_comm_send(b.gpu, b.in, N, DDP_F32, 1, &e);
    else
        rc = ddp_comm_recv(b.gpu, b.out, i == 4 ? N - 1 : N,
                           i == 4 ? DDP_F32 : DDP_I32, 0, &e);
    RT_CHECK(rc != 0 && e.code == DDP_ERR_CONFLICT);
    /* Of a send and a receive the receiver knows what differs. */
    RT_CHECK(strstr(e.text, i >= 4 && !one ? "rank 1 found ranks"
                                           : differences[i]) != NULL);
    RT_CHECK(rt_nccl()->aborts == 1);
    return 0;
}

/* A rank that lacks the memory to compare what is called: the others hear so at
 * once, also in the first call of all. */
static int lack_memory(int rank, void *arg)
{
    int i = *(int *)arg;
    struct ddp_error e;
    RT_CHECK(setenv("DDP_CHECK", "1", 1) == 0);
    struct both b = start(false);
    scarce = rank == i % 2;
    int rc =
        i < 2 ? ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32, DDP_SUM, &e)
        : rank == 0 ? ddp_comm_send(b.gpu, b.in, N, DDP_F32, 1, &e)
                    : ddp_comm_recv(b.gpu, b.out, N, DDP_F32, 0, &e);
    scarce = 0;
    RT_CHECK(rc != 0);
    if (rank == i % 2)
        RT_CHECK(e.code == DDP_ERR_NOMEM);
    else
        RT_CHECK(e.code == DDP_ERR_PEER && strstr(e.text, "failed") != NULL);
    RT_CHECK(rt_nccl()->aborts == 1);
    return 0;
}

START_TEST(test_nccl_rank_without_memory_is_no_hang)
{
    rt_world_run(2, lack_memory, &_i, DEADLINE_MS);
}
END_TEST

START_TEST(test_nccl_calls_that_differ_are_a_conflict)
{
    rt_world_run(2, differ, &_i, DEADLINE_MS);
}
END_TEST

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

START_TEST(test_nccl_calls_of_the_program_are_waited_for)
{
    bool async = _i == 1;
    rt_world_run(2, enqueue, &async, DEADLINE_MS);
}
END_TEST

static int alone(int rank, void *arg)
{
    struct ddp_error e;
    struct both b = start(false);
    uint8_t *in = rt_shadow(b.in), *out = rt_shadow(b.out);
    (void)rank, (void)arg;
    RT_CHECK(ddp_comm_nccl(b.gpu) == NULL);
    for (int i = 0; i < 4; i++) {
        in[0] = (uint8_t)(i + 1);
        int rc = i == 0   ? ddp_comm_all_reduce(b.gpu, b.in, b.out, N, DDP_F32,
                                                DDP_AVG, &e)
                 : i == 1 ? ddp_comm_reduce_scatter(b.gpu, b.in, b.out, N,
                                                    DDP_F32, DDP_MAX, &e)
                 : i == 2
                     ? ddp_comm_all_to_all(b.gpu, b.in, b.out, N, DDP_F32, &e)
                     : ddp_comm_all_gather(b.gpu, b.in, b.out, N, DDP_F32, &e);
        RT_OK(rc, e);
        RT_CHECK(out[0] == i + 1);
    }
    stop(&b);
    return 0;
}

START_TEST(test_nccl_calls_of_one_rank_copy)
{
    rt_world_run(1, alone, NULL, DEADLINE_MS);
}
END_TEST

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
START_TEST(test_nccl_calls_wait_shortly_without_a_nap)
{
    rt_world_run(2, wait_shortly, NULL, DEADLINE_MS);
}
END_TEST

static Suite *nccl_calls_suite(void)
{
    Suite *s = suite_create("comm_nccl_calls");
    TCase *t = tcase_create("work");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_nccl_calls_are_the_right_ones, 0, 2);
    tcase_add_loop_test(t, test_nccl_calls_scatter_and_exchange, 2, 5);
    tcase_add_loop_test(t, test_nccl_calls_group_sends_and_receives, 0, 2);
    tcase_add_loop_test(t, test_nccl_calls_of_nothing_are_none, 0, 2);
    tcase_add_test(t, test_nccl_calls_of_f8_need_a_newer_one);
    tcase_add_loop_test(t, test_nccl_calls_of_the_program_are_waited_for, 0, 2);
    tcase_add_test(t, test_nccl_calls_of_one_rank_copy);
    tcase_add_test(t, test_nccl_calls_wait_shortly_without_a_nap);
    suite_add_tcase(s, t);
    t = tcase_create("trouble");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, test_nccl_calls_end_with_their_peer, 0, OF_ALL);
    tcase_add_loop_test(t, test_nccl_calls_end_when_they_are_aborted, 0,
                        OF_ALL);
    tcase_add_loop_test(t, test_nccl_rank_without_memory_is_no_hang, 0, 4);
    tcase_add_loop_test(t, test_nccl_calls_that_differ_are_a_conflict, 0,
                        (int)(sizeof(differences) / sizeof(differences[0])));
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return suite_run(nccl_calls_suite());
}
