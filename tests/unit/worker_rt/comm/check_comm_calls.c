/* links: tests/lib/{rt_world,rt_comm} */
/* libs: -luv -pthread */
/*
 * The CPU communicator's calls with a type and an operation, beside a plain
 * reference; and wrong arguments.
 */
#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/suite.h"
#include "worker_rt/comm/reduce.h"
#include "worker_rt/ddp.h"

#define DEADLINE_MS 20000

static const int worlds[] = {1, 2, 3, 5};
#define WORLDS (int)(sizeof(worlds) / sizeof(worlds[0]))

static struct ddp_comm *join(struct ddp *d)
{
    struct ddp_error e;
    struct ddp_comm_opts opts = {.size = sizeof(opts), .init_timeout_ms = 5000};
    struct ddp_comm *c = ddp_comm_new(d, &opts, &e);
    RT_OK(c == NULL ? -1 : 0, e);
    return c;
}

static uint8_t *room(size_t len)
{
    uint8_t *p = malloc(len + 8);
    RT_CHECK(p != NULL);
    memset(p, 0xee, len + 8);
    return p;
}

static void check_behind(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < 8; i++)
        RT_CHECK(p[len + i] == 0xee);
}

/* What the ranks find, for the test to look at. */
struct board {
    uint64_t digest[RT_RANKS_MAX];
};

/* -- the reference --------------------------------------------------------- */

/* How a type stores numbers. */
static const struct type {
    enum ddp_dtype dtype;
    size_t size;
    int fraction; /* bits of a small floating-point type, else 0 */
    int bias;
    bool is_float;
    bool is_unsigned;
} types[] = {
    {DDP_F64, 8, 0, 0, true, false},     {DDP_F32, 4, 0, 0, true, false},
    {DDP_F16, 2, 10, 15, true, false},   {DDP_BF16, 2, 7, 127, true, false},
    {DDP_F8_E4M3, 1, 3, 7, true, false}, {DDP_F8_E5M2, 1, 2, 15, true, false},
    {DDP_I64, 8, 0, 0, false, false},    {DDP_I32, 4, 0, 0, false, false},
    {DDP_I8, 1, 0, 0, false, false},     {DDP_U64, 8, 0, 0, false, true},
    {DDP_U32, 4, 0, 0, false, true},     {DDP_U8, 1, 0, 0, false, true},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

static const enum ddp_op ops[] = {DDP_SUM, DDP_AVG, DDP_MAX, DDP_MIN, DDP_PROD};
#define OPS (sizeof(ops) / sizeof(ops[0]))

/* -1, 0, 1, 2 or 3 as an element. */
static void put(const struct type *t, void *to, int x)
{
    double d = x;
    float f = (float)x;
    int64_t k = x;
    uint32_t small = 0; /* of the small types: 1 and 2 are powers of two */
    if (x != 0)
        small = (uint32_t)(t->bias + (x == 2 ? 1 : 0)) << t->fraction;
    if (x < 0)
        small |= t->size == 2 ? 0x8000u : 0x80u;
    if (t->fraction > 0)
        memcpy(to, &small, t->size);
    else if (!t->is_float)
        memcpy(to, &k, t->size); /* little-endian */
    else
        memcpy(to, t->size == 8 ? (void *)&d : (void *)&f, t->size);
}

static double get(const struct type *t, const void *from)
{
    int64_t k = 0;
    double d;
    float f;
    memcpy(&k, from, t->size);
    memcpy(&d, &k, sizeof(d));
    memcpy(&f, &k, sizeof(f));
    int64_t sign = (int64_t)(UINT64_C(1) << (8 * t->size - 1));
    if (t->fraction > 0) {
        double part = (double)(k & ((1 << t->fraction) - 1));
        int exponent = (int)((k & (sign - 1)) >> t->fraction);
        double x = exponent == 0 ? ldexp(part, 1 - t->bias - t->fraction)
                                 : ldexp(part + (1 << t->fraction),
                                         exponent - t->bias - t->fraction);
        return (k & sign) != 0 ? -x : x;
    }
    if (t->is_float)
        return t->size == 8 ? d : (double)f;
    if (!t->is_unsigned && t->size < 8 && (k & sign) != 0)
        k -= 2 * sign;
    return (double)k;
}

/* Rank r's element i. Results are exact in all of these types, but averages. */
static int part(const struct type *t, enum ddp_op op, int rank, size_t i)
{
    static const int added[] = {0, 1, -1, 1}, others[] = {1, 2, -1, 1};
    size_t k = (i * 7 + (size_t)rank * 5 + i / 11) % 4;
    int x = op == DDP_SUM || op == DDP_AVG ? added[k] : others[k];
    return t->is_unsigned && x < 0 ? 3 : x;
}

static double whole(const struct type *t, enum ddp_op op, int world, size_t i)
{
    double x = part(t, op, 0, i);
    for (int r = 1; r < world; r++) {
        double y = part(t, op, r, i);
        x = op == DDP_MAX    ? fmax(x, y)
            : op == DDP_MIN  ? fmin(x, y)
            : op == DDP_PROD ? x * y
                             : x + y;
    }
    if (op == DDP_AVG)
        x = t->is_float ? x / world : trunc(x / world);
    return x;
}

static bool is_right(const struct type *t, enum ddp_op op, double x, double y)
{
    double error = 0;
    if (op == DDP_AVG && t->is_float) /* half of the last place */
        error = ldexp(fabs(y), t->fraction > 0 ? -t->fraction - 1 : -22);
    return fabs(x - y) <= error;
}

static void
fill(const struct type *t, enum ddp_op op, int rank, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(t, to + i * t->size, part(t, op, rank, i));
}

/* `got` begins with element `from` of the result. */
static void check_result(const struct type *t,
                         enum ddp_op op,
                         int world,
                         const uint8_t *got,
                         size_t from,
                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = get(t, got + i * t->size);
        double y = whole(t, op, world, from + i);
        if (is_right(t, op, x, y))
            continue;
        fprintf(stderr, "%s of %s, element %zu of %zu: %g, should be %g\n",
                reduce_op_name(op), reduce_dtype_name(t->dtype), from + i,
                count, x, y);
        RT_CHECK(false);
    }
}

/* None, one, an odd number, and so many that they go round the ring. */
static size_t count_of(int k, size_t size)
{
    return k == 3 ? (40001 / size) | 1 : (size_t)(k == 2 ? 33 : k);
}
#define COUNTS 4

/* -- what combines --------------------------------------------------------- */

static void reduce_one(struct ddp *d,
                       struct ddp_comm *c,
                       const struct type *t,
                       enum ddp_op op,
                       size_t n)
{
    struct ddp_error e;
    int rank = ddp_rank(d), world = ddp_world(d);
    size_t len = n * t->size, at = (size_t)rank * n, all = len * (size_t)world;
    uint8_t *in = room(all), *out = room(all);
    fill(t, op, rank, in, n);
    RT_OK(ddp_comm_all_reduce(c, in, out, n, t->dtype, op, &e), e);
    check_result(t, op, world, out, 0, n);
    check_behind(out, all);
    RT_OK(ddp_comm_all_reduce(c, in, in, n, t->dtype, op, &e), e);
    RT_CHECK(memcmp(in, out, len) == 0);
    fill(t, op, rank, in, n * (size_t)world);
    RT_OK(ddp_comm_reduce_scatter(c, in, out, n, t->dtype, op, &e), e);
    check_result(t, op, world, out, at, n);
    uint8_t *own = in + at * t->size;
    RT_OK(ddp_comm_reduce_scatter(c, in, own, n, t->dtype, op, &e), e);
    RT_CHECK(memcmp(own, out, len) == 0);
    check_behind(in, all);
    free(in);
    free(out);
}

static int reduce_all(int rank, void *arg)
{
    struct ddp *d = rt_init();
    struct ddp_comm *c = join(d);
    (void)rank, (void)arg;
    for (size_t t = 0; t < TYPES; t++)
        for (size_t op = 0; op < OPS; op++)
            for (int k = 0; k < COUNTS; k++)
                reduce_one(d, c, &types[t], ops[op],
                           count_of(k, types[t].size));
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

/* Every type, every operation, every size, in place and not. */
TEST_LOOP(test_calls_reduce_is_right, 0, WORLDS)
{
    rt_world_run(worlds[_i], reduce_all, NULL, DEADLINE_MS);
}

static uint64_t digest(uint64_t h, const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * UINT64_C(1099511628211);
    return h;
}

/* Any bits at all: numbers whose sum depends on the order, infinities, NaNs. */
static int reduce_noise(int rank, void *arg)
{
    struct board *b = arg;
    struct ddp_error e;
    struct ddp *d = rt_init();
    struct ddp_comm *c = join(d);
    uint8_t *data = room(50000);
    struct rng r;
    rng_init(&r, (uint64_t)rank);
    for (size_t t = 0; t < TYPES; t++)
        for (size_t op = 0; op < OPS; op++)
            for (int k = 2; k < COUNTS; k++) {
                size_t n = count_of(k, types[t].size), len = n * types[t].size;
                for (size_t i = 0; i < len; i++)
                    data[i] = (uint8_t)rng_next(&r);
                RT_OK(ddp_comm_all_reduce(c, data, data, n, types[t].dtype,
                                          ops[op], &e),
                      e);
                b->digest[rank] = digest(b->digest[rank], data, len);
            }
    free(data);
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

/* The same bits on all ranks, and again in a second run. */
TEST_LOOP(test_calls_reduce_has_the_same_bits_everywhere, 1, WORLDS)
{
    uint64_t first = 0;
    for (int run = 0; run < 2; run++) {
        struct board *b = rt_shared(sizeof(*b));
        rt_world_run(worlds[_i], reduce_noise, b, DEADLINE_MS);
        for (int r = 1; r < worlds[_i]; r++)
            ck_assert(b->digest[r] == b->digest[0]);
        ck_assert(run == 0 || b->digest[0] == first);
        first = b->digest[0];
    }
}

/* -- what moves ------------------------------------------------------------ */

static const enum ddp_dtype moved[] = {DDP_F64, DDP_F32, DDP_BF16,
                                       DDP_U16, DDP_I8,  DDP_BOOL};
#define MOVED (sizeof(moved) / sizeof(moved[0]))

/* The byte that rank `from` has at `i`. */
static uint8_t byte_of(int from, size_t i)
{
    return (uint8_t)(i * 3 + i / 251 + (size_t)from * 17);
}

static void check_gathered(const uint8_t *all, int world, size_t len)
{
    for (int from = 0; from < world; from++)
        for (size_t i = 0; i < len; i++)
            RT_CHECK(all[(size_t)from * len + i] == byte_of(from, i));
    check_behind(all, len * (size_t)world);
}

/* In place and not. */
static void
move_one(struct ddp *d, struct ddp_comm *c, enum ddp_dtype dtype, size_t n)
{
    struct ddp_error e;
    int rank = ddp_rank(d), world = ddp_world(d);
    size_t len = n * ddp_dtype_size(dtype), all = len * (size_t)world;
    uint8_t *in = room(len), *out = room(all), *own = out + (size_t)rank * len;
    for (size_t i = 0; i < len; i++)
        in[i] = byte_of(rank, i);
    RT_OK(ddp_comm_all_gather(c, in, out, n, dtype, &e), e);
    check_gathered(out, world, len);
    memset(out, 0, all);
    memcpy(own, in, len);
    RT_OK(ddp_comm_all_gather(c, own, out, n, dtype, &e), e);
    check_gathered(out, world, len);
    check_behind(in, len);
    free(in);
    free(out);
}

static int move_all(int rank, void *arg)
{
    struct ddp *d = rt_init();
    struct ddp_comm *c = join(d);
    (void)rank, (void)arg;
    for (size_t t = 0; t < MOVED; t++)
        for (int k = 0; k < COUNTS; k++)
            move_one(d, c, moved[t], count_of(k, ddp_dtype_size(moved[t])));
    ddp_comm_free(c);
    ddp_free(d);
    return 0;
}

TEST_LOOP(test_calls_gather_is_right, 0, WORLDS)
{
    rt_world_run(worlds[_i], move_all, NULL, DEADLINE_MS);
}

/* -- a wait ---------------------------------------------------------------- */

/* There is nothing to wait for, but it tells if the communicator is not whole.
 */
static int wait_for_nothing(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp_comm *c = join(rt_init());
    (void)rank, (void)arg;
    RT_OK(ddp_comm_wait(c, &e), e);
    ddp_comm_abort(c);
    RT_CHECK(ddp_comm_wait(c, &e) != 0 && e.code == DDP_ERR_ABORTED);
    RT_CHECK(ddp_comm_wait(c, &e) != 0 && e.code == DDP_ERR_ABORTED);
    ddp_comm_free(c);
    return 0;
}

CASE("trouble", .limit_s = 60)

TEST(test_calls_a_wait_fails_as_others_do)
{
    rt_world_run(1, wait_for_nothing, NULL, DEADLINE_MS);
}

/* A broadcast of a rank that is killed, and what comes behind it. */
static int killed_peer(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp_comm *c = rt_join(rt_init(), 0);
    static uint8_t data[100];
    (void)arg;
    RT_OK(ddp_comm_barrier(c, &e), e);
    if (rank == 1) {
        (void)usleep(100000);
        (void)raise(SIGKILL);
    }
    RT_CHECK(ddp_comm_broadcast(c, data, 100, 1, &e) != 0);
    RT_CHECK(e.code == DDP_ERR_PEER);
    RT_CHECK(strcmp(e.text, "broadcast: rank 1 died") == 0);
    RT_CHECK(ddp_comm_wait(c, &e) != 0 && e.code == DDP_ERR_PEER);
    RT_CHECK(strcmp(e.text, "broadcast: rank 1 died") == 0);
    return 0;
}

TEST(test_calls_a_broadcast_of_the_dead_ends)
{
    pid_t pids[3], store = rt_world_start(3, killed_peer, NULL, pids);
    for (int r = 0; r < 3; r++)
        ck_assert_int_eq(rt_wait(pids[r], DEADLINE_MS),
                         r == 1 ? 128 + SIGKILL : 0);
    rt_kill(store);
}

/* -- wrong arguments ------------------------------------------------------- */

#define WRONG(call) RT_CHECK((call) != 0 && e.code == DDP_ERR_USAGE)

static int misuse(int rank, void *arg)
{
    struct ddp_error e;
    struct ddp_comm *c = join(rt_init());
    static float x[64], y[64];
    (void)rank, (void)arg;
    WRONG(ddp_comm_all_reduce(c, x, y, 1, DDP_BOOL, DDP_SUM, &e));
    WRONG(ddp_comm_all_reduce(c, x, y, 1, DDP_I16, DDP_SUM, &e));
    WRONG(ddp_comm_all_reduce(c, x, y, 1, (enum ddp_dtype)0, DDP_SUM, &e));
    WRONG(ddp_comm_all_reduce(c, x, y, 1, DDP_F32, (enum ddp_op)5, &e));
    WRONG(ddp_comm_all_reduce(c, (char *)x + 1, y, 1, DDP_F32, DDP_SUM, &e));
    WRONG(ddp_comm_all_reduce(c, x, NULL, 1, DDP_F32, DDP_SUM, &e));
    WRONG(ddp_comm_reduce_scatter(c, x, y, SIZE_MAX / 16, DDP_F32, 0, &e));
    WRONG(ddp_comm_all_gather(c, x, y, SIZE_MAX / 16, DDP_F32, &e));
    WRONG(ddp_comm_all_gather(c, x, y, 1, (enum ddp_dtype)16, &e));
    WRONG(ddp_comm_broadcast(c, x, 4, 5, &e));
    WRONG(ddp_comm_broadcast(c, x, 4, -1, &e));
    WRONG(ddp_comm_broadcast(c, NULL, 4, 0, &e));
    /* It is still whole. */
    x[0] = 1;
    RT_OK(ddp_comm_allreduce(c, x, 1, DDP_F32, &e), e);
    RT_CHECK(x[0] > 4.5f && x[0] < 5.5f);
    RT_CHECK(ddp_comm_nccl(c) == NULL);
    ddp_comm_free(c);
    return 0;
}

TEST(test_calls_with_wrong_arguments_do_no_harm)
{
    rt_world_run(5, misuse, NULL, DEADLINE_MS);
}

SUITE("comm_calls", "work", .limit_s = 60)
