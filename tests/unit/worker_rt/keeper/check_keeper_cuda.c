/* links: tests/lib/{scratch,rt_world,rt_comm} RT */
/* libs: -luv -lcjson -lxxhash */
/* libs: -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib' */
/*
 * Snapshots of what lies in a GPU's memory, on a driver that is not real: what
 * is saved is what stood there at the call, whatever comes after it on the
 * stream; pages are locked and let go; what cannot be had costs time only; and
 * a rank whose GPU has a wrong bit is named.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fake_cuda.h"
#include "tests/lib/rt_comm.h"
#include "tests/lib/rt_world.h"
#include "tests/lib/scratch.h"
#include "tests/lib/snapshot_memory.h"
#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define N      2000
#define MEMORY (1 << 20)

static void *function(const char *name)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(lib);
    void *found = dlsym(lib, name);
    ck_assert_ptr_nonnull(found);
    return found;
}

static struct fake_cuda *cuda(void)
{
    struct fake_cuda *(*get)(void);
    void *found = function("fake_cuda");
    memcpy(&get, &found, sizeof(found));
    return get();
}

static float *on_device(void)
{
    int (*alloc)(uintptr_t *, size_t);
    uintptr_t p = 0;
    void *found = function("cuMemAlloc_v2");
    memcpy(&alloc, &found, sizeof(found));
    ck_assert_int_eq(alloc(&p, N * sizeof(float)), 0);
    return (float *)p;
}

/* Where a test may touch it. */
static float *shadow(const float *p)
{
    void *(*get)(const void *);
    void *found = function("fake_shadow");
    memcpy(&get, &found, sizeof(found));
    return get(p);
}

/* Work on the program's stream: what it does comes later, in order. */
static bool fill_later(void *arg)
{
    struct {
        float *to;
        float value;
    } *w = arg;
    float *to = shadow(w->to);
    for (int i = 0; i < N; i++)
        to[i] = w->value + (float)i;
    return true;
}

static void write_on_stream(float *to, float value)
{
    void (*push)(void *, fake_op_fn *, void *);
    struct {
        float *to;
        float value;
    } *w = malloc(sizeof(*w));
    void *found = function("fake_stream_push");
    memcpy(&push, &found, sizeof(found));
    ck_assert_ptr_nonnull(w);
    w->to = to;
    w->value = value;
    push(NULL, fill_later, w);
}

static void make_dir(void)
{
    scratch_enter();
    rt_place(0, 1, 1, 1);
}

struct rig {
    struct ddp *d;
    struct ddp_comm *comm;
    struct ddp_keeper *k;
    float *device;
    float host[N];
    struct ddp_tensor t[2];
};

/* With this room on the device, see ddp_keeper_conf. */
static struct rig *open_rig_with(void *room, size_t room_len)
{
    struct ddp_error e;
    struct rig *r = calloc(1, sizeof(*r));
    ck_assert_ptr_nonnull(r);
    struct ddp_keeper_conf conf = {.size = sizeof(conf),
                                   .folder = "snap",
                                   .gpu = true,
                                   .room = room,
                                   .room_len = room_len};
    r->d = rt_init();
    r->comm = rt_join(r->d, 0);
    r->k = ddp_keeper_new(r->d, r->comm, &conf, &e);
    RT_OK(r->k == NULL ? -1 : 0, e);
    r->device = on_device();
    r->t[0] = (struct ddp_tensor){"w", DDP_F32, 1, {N}, r->device};
    r->t[1] = (struct ddp_tensor){"h", DDP_F32, 1, {N}, r->host};
    return r;
}

static struct rig *open_rig(void)
{
    return open_rig_with(NULL, 0);
}

static void close_rig(struct rig *r)
{
    ddp_keeper_free(r->k);
    ddp_comm_free(r->comm);
    ddp_free(r->d);
    free(r);
}

static int save(struct rig *r, int64_t step, struct ddp_error *e)
{
    for (int i = 0; i < N; i++)
        r->host[i] = (float)(-step);
    write_on_stream(r->device, (float)step * 10);
    int rc = ddp_keeper_save(r->k, step, r->t, 2, NULL, 0, true, e);
    write_on_stream(r->device, -1.0f); /* the next step's, in order */
    return rc;
}

static void expect(struct rig *r, int64_t step)
{
    static float w[N], h[N];
    struct ddp_error e;
    struct ddp_kept kept = {.size = sizeof(kept)};
    struct ddp_tensor t[2] = {{"w", DDP_F32, 1, {N}, w},
                              {"h", DDP_F32, 1, {N}, h}};
    RT_OK(ddp_keeper_load(r->k, t, 2, NULL, 0, &kept, &e), e);
    ck_assert_int_eq(kept.step, step);
    for (int i = 0; i < N; i++) {
        ck_assert(w[i] == (float)step * 10 + (float)i);
        ck_assert(h[i] == (float)(-step));
    }
}

/* With the launcher's memory and without, with all that helps and without. */
TEST_LOOP(test_keeper_gpu_saves_what_stood_there, 0, 8)
{
    struct ddp_error e;
    if (_i & 1)
        ck_assert_int_eq(snapshot_memory_give(MEMORY), 0);
    cuda()->no_pin = _i & 2;
    struct rig *r = open_rig();
    size_t held = cuda()->held;
    cuda()->no_memory = _i & 4;
    for (int64_t step = 1; step <= 5; step++)
        RT_OK(save(r, step, &e), e);
    RT_OK(ddp_keeper_wait(r->k, &e), e);
    expect(r, 5);
    ck_assert_int_eq(cuda()->held > held, !(_i & 4));
    ck_assert_int_eq(cuda()->pinned > 0, !(_i & 2));
    if (!(_i & 2))
        ck_assert_int_eq(cuda()->unpinned_copies, 0);
    ddp_keeper_free(r->k);
    ck_assert_uint_eq(cuda()->pinned, 0);
    ck_assert_uint_eq(cuda()->held, held);
    r->k = NULL;
    close_rig(r);
}

/* The program's stream stands still until the test lets it go on. */
static atomic_bool gate;

static bool gate_opens(void *arg)
{
    (void)arg;
    return atomic_load(&gate);
}

static void close_gate(void)
{
    void (*push)(void *, fake_op_fn *, void *);
    void *found = function("fake_stream_push");
    memcpy(&push, &found, sizeof(found));
    atomic_store(&gate, false);
    push(NULL, gate_opens, malloc(1));
}

static const struct {
    bool given;   /* by the program */
    size_t len;   /* of the room */
    size_t taken; /* by libddp */
    bool waits;   /* there is too little for two halves */
} rooms[] = {
    {true, N * sizeof(float), 0, false},
    {true, 3000, 0, false},
    {true, 513, 0, false},
    {true, 100, 0, true},
    {false, 0, N * sizeof(float), false},
    {false, 10 * N * sizeof(float), N * sizeof(float), false},
    {false, 3000, 3000, false},
    {false, 100, 0, true},
};
#define ROOMS ((int)(sizeof(rooms) / sizeof(rooms[0])))

/* Room of the program's, or no more than it allows: what is saved is right, and
 * the save does not wait for the stream, unless there is hardly any. */
TEST_LOOP(test_keeper_gpu_room_is_what_was_given, 0, ROOMS)
{
    struct ddp_error e;
    void *room = rooms[_i].given ? on_device() : NULL;
    struct rig *r = open_rig_with(room, rooms[_i].len);
    size_t held = cuda()->held;
    for (int64_t step = 1; step <= 4; step++) {
        if (!rooms[_i].waits)
            close_gate();
        RT_OK(save(r, step, &e), e);
        atomic_store(&gate, true);
        RT_OK(ddp_keeper_wait(r->k, &e), e);
        expect(r, step);
    }
    /* In pages, as a driver counts. */
    ck_assert_uint_ge(cuda()->held - held, rooms[_i].taken);
    ck_assert_uint_le(cuda()->held - held, (rooms[_i].taken + 8191) & ~4095u);
    close_rig(r);
}

/* A GPU that fails costs that snapshot, and the one before it stays. */
TEST(test_keeper_gpu_failure_is_told_and_does_no_harm)
{
    struct ddp_error e;
    struct rig *r = open_rig();
    RT_OK(save(r, 1, &e), e);
    RT_OK(ddp_keeper_wait(r->k, &e), e);
    cuda()->broken = true;
    int rc = save(r, 2, &e);
    if (rc == 0)
        rc = ddp_keeper_wait(r->k, &e);
    ck_assert_int_eq(rc, -1);
    ck_assert_int_eq(e.code, DDP_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "illegal memory access"));
    cuda()->broken = false;
    expect(r, 1);
    RT_OK(save(r, 3, &e), e);
    RT_OK(ddp_keeper_wait(r->k, &e), e);
    expect(r, 3);
    close_rig(r);
}

TEST(test_keeper_gpu_none_chosen_is_told)
{
    struct ddp_error e;
    struct ddp_keeper_conf conf = {.gpu = true};
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    cuda()->no_context = true;
    ck_assert_ptr_null(ddp_keeper_new(d, comm, &conf, &e));
    ck_assert_int_eq(e.code, DDP_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "cudaSetDevice"));
    ddp_comm_free(comm);
    ddp_free(d);
}

/* -- a wrong bit ----------------------------------------------------------- */

#define ODD    1 /* the rank */
#define RANKS  3
#define EVERY  3 /* saves between two comparisons */
#define WRONG  7 /* the first step with it .. */
#define NAMED  9 /* .. and that in which it is found */
#define BROKEN 3 /* a step in which that GPU cannot be read */

static bool flip_later(void *arg)
{
    float **to = arg;
    uint8_t *byte = (uint8_t *)(shadow(*to) + N / 2);
    *byte ^= 4;
    return true;
}

static void flip_on_stream(float *to)
{
    void (*push)(void *, fake_op_fn *, void *);
    float **arg = malloc(sizeof(*arg));
    void *found = function("fake_stream_push");
    memcpy(&push, &found, sizeof(found));
    RT_CHECK(arg != NULL);
    *arg = to;
    push(NULL, flip_later, arg);
}

static int save_with_a_wrong_bit(int rank, void *arg)
{
    static float host[N];
    struct ddp_error e;
    const struct ddp_keeper_conf conf = {
        .size = sizeof(conf), .gpu = true, .check_every = EVERY};
    (void)arg;
    struct ddp *d = rt_init();
    struct ddp_comm *comm = rt_join(d, 0);
    struct ddp_keeper *k = ddp_keeper_new(d, comm, &conf, &e);
    RT_OK(k == NULL ? -1 : 0, e);
    float *device = on_device();
    const struct ddp_tensor t[2] = {{"h", DDP_F32, 1, {N}, host},
                                    {"w", DDP_F32, 1, {N}, device}};
    for (int step = 1; step <= NAMED; step++) {
        write_on_stream(device, (float)step * 10);
        if (rank == ODD && step >= WRONG)
            flip_on_stream(device);
        cuda()->broken = rank == ODD && step == BROKEN;
        int rc = ddp_keeper_save(k, step, t, 2, NULL, 0, false, &e);
        cuda()->broken = false;
        if (step < NAMED) {
            RT_OK(rc, e);
            continue;
        }
        RT_CHECK(rc == -1);
        RT_CHECK(e.code == (rank == ODD ? DDP_ERR_CORRUPT : DDP_ERR_PEER));
        RT_CHECK(strstr(e.text, "rank 1 on node 0 has wrong bits in tensor "
                                "'w'") != NULL);
    }
    ddp_keeper_free(k);
    ddp_comm_free(comm);
    ddp_free(d);
    return 0;
}

/* What comes from GPUs is compared as all else is; where one of them fails,
 * nothing is, and nobody is blamed. */
TEST(test_keeper_gpu_with_a_wrong_bit_is_named)
{
    rt_world_run(RANKS, save_with_a_wrong_bit, NULL, 30000);
}

SUITE("keeper_cuda", "gpu", .limit_s = 60, FIXTURE(make_dir, scratch_leave))
