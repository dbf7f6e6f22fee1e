/* links: worker_rt/{sampler,abi} rendezvous/base/{err,rng} */
/*
 * Who takes which samples: all of them, equally many each, the same on every
 * machine, and a resumed epoch takes exactly what was left.
 */
#include <check.h>
#include <string.h>

#include "tests/lib/suite.h"
#include "worker_rt/ddp.h"

#define MAX 400

static struct ddp_sampler *make(uint64_t n, int rank, int world, int flags)
{
    struct ddp_sampler_conf conf = {.samples = n,
                                    .rank = rank,
                                    .world = world,
                                    .seed = 42,
                                    .shuffle = (flags & 1) != 0,
                                    .drop_last = (flags & 2) != 0};
    struct ddp_sampler *s = ddp_sampler_new(&conf, NULL);
    ck_assert_ptr_nonnull(s);
    return s;
}

/* How often each sample is taken by a world that goes on from `position`;
 * returns the position at the end, `steps` samples per rank later. */
static int64_t deal(uint64_t n,
                    int world,
                    int flags,
                    int64_t position,
                    size_t steps,
                    int *taken)
{
    int64_t end = -1;
    for (int rank = 0; rank < world; rank++) {
        uint32_t got[MAX];
        struct ddp_sampler *s = make(n, rank, world, flags);
        ck_assert_int_eq(ddp_sampler_seek(s, 5, position, NULL), 0);
        size_t k = ddp_sampler_next(s, got, steps);
        for (size_t i = 0; i < k; i++) {
            ck_assert_uint_lt(got[i], n);
            taken[got[i]]++;
        }
        if (rank > 0)
            ck_assert_int_eq(ddp_sampler_position(s), end);
        end = ddp_sampler_position(s);
        ddp_sampler_free(s);
    }
    return end;
}

/* Each sample once, and the padding again from the front: no sample more than
 * its share; with drop_last never more than once. */
TEST_LOOP(test_sampler_epoch_takes_all_samples, 0, 4)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 12, 100, 101};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
        for (int world = 1; world <= 9; world++) {
            int taken[MAX] = {0}, sum = 0;
            uint64_t n = sizes[k];
            int w = world, drop = (_i & 2) != 0;
            int64_t end = deal(n, world, _i, 0, MAX, taken);
            int share = drop ? (int)n / w : ((int)n + w - 1) / w;
            for (uint64_t i = 0; i < n; i++) {
                if (drop)
                    ck_assert_int_le(taken[i], 1);
                else
                    ck_assert_int_ge(taken[i], 1);
                sum += taken[i];
            }
            ck_assert_int_eq(sum, share * world);
            ck_assert_int_eq(end, share * world);
        }
}

/* torch.utils.data.DistributedSampler(range(10), 4, rank, shuffle=False):
 * strided, and wrapped around to the beginning. */
TEST(test_sampler_unshuffled_is_strided_and_wraps)
{
    static const uint32_t want[4][3] = {
        {0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}};
    for (int rank = 0; rank < 4; rank++) {
        uint32_t got[4];
        struct ddp_sampler *s = make(10, rank, 4, 0);
        ck_assert_uint_eq(ddp_sampler_left(s), 3);
        ck_assert_uint_eq(ddp_sampler_next(s, got, 2), 2);
        ck_assert_uint_eq(ddp_sampler_left(s), 1);
        ck_assert_int_eq(ddp_sampler_position(s), 8);
        ck_assert_uint_eq(ddp_sampler_next(s, got + 2, 2), 1);
        ck_assert_mem_eq(got, want[rank], sizeof(want[rank]));
        ck_assert_uint_eq(ddp_sampler_next(s, got, 4), 0);
        ddp_sampler_free(s);
    }
}

/* A world larger than the samples: all wrap, several times. */
TEST(test_sampler_tiny_set_wraps_many_times)
{
    for (int rank = 0; rank < 7; rank++) {
        uint32_t got[2];
        struct ddp_sampler *s = make(2, rank, 7, 0);
        ck_assert_uint_eq(ddp_sampler_next(s, got, 2), 1);
        ck_assert_uint_eq(got[0], (uint32_t)rank % 2);
        ddp_sampler_free(s);
    }
}

/* Resumed in the middle, at any position: the same order goes on. */
TEST(test_sampler_resume_goes_on_exactly)
{
    for (size_t cut = 0; cut <= 34; cut++) {
        uint32_t whole[MAX], parts[MAX];
        struct ddp_sampler *a = make(100, 1, 3, 1);
        ck_assert_int_eq(ddp_sampler_seek(a, 9, 0, NULL), 0);
        size_t n = ddp_sampler_next(a, whole, MAX);
        ck_assert_uint_eq(n, 34);
        ddp_sampler_free(a);
        a = make(100, 1, 3, 1);
        ck_assert_int_eq(ddp_sampler_seek(a, 9, 0, NULL), 0);
        ck_assert_uint_eq(ddp_sampler_next(a, parts, cut), cut);
        int64_t at = ddp_sampler_position(a);
        ddp_sampler_free(a);
        struct ddp_sampler *b = make(100, 1, 3, 1);
        ck_assert_int_eq(ddp_sampler_seek(b, 9, at, NULL), 0);
        ck_assert_int_eq(ddp_sampler_epoch(b), 9);
        ck_assert_uint_eq(ddp_sampler_next(b, parts + cut, MAX - cut), n - cut);
        ck_assert_mem_eq(whole, parts, n * sizeof(*whole));
        ddp_sampler_free(b);
    }
}

/* The world changes in the middle of an epoch, 4 to 2 to 3: every sample is
 * still taken, and only the end's padding twice. */
TEST(test_sampler_world_may_change_within_an_epoch)
{
    int taken[MAX] = {0}, twice = 0;
    int64_t at = deal(101, 4, 1, 0, 7, taken);
    ck_assert_int_eq(at, 28);
    at = deal(101, 2, 1, at, 11, taken);
    ck_assert_int_eq(at, 50);
    for (int i = 0; i < 101; i++)
        ck_assert_int_le(taken[i], 1);
    at = deal(101, 3, 1, at, MAX, taken);
    ck_assert_int_eq(at, 101);
    for (int i = 0; i < 101; i++) {
        ck_assert_int_ge(taken[i], 1);
        twice += taken[i] - 1;
    }
    ck_assert_int_eq(twice, 0);
    ck_assert_int_eq(deal(101, 5, 1, at, MAX, taken), 101);
    ck_assert_int_eq(deal(101, 5, 1, 104, MAX, taken), 104);
}

/* The shuffle never changes: these were recorded with the first version. A
 * snapshot's position means this order. */
TEST(test_sampler_order_is_the_recorded_one)
{
    static const uint32_t want[2][10] = {{4, 6, 7, 0, 9, 5, 1, 2, 3, 8},
                                         {8, 7, 9, 0, 1, 2, 5, 6, 4, 3}};
    for (int epoch = 0; epoch < 2; epoch++) {
        uint32_t got[10];
        struct ddp_sampler *s = make(10, 0, 1, 1);
        ck_assert_int_eq(ddp_sampler_seek(s, epoch, 0, NULL), 0);
        ck_assert_uint_eq(ddp_sampler_next(s, got, 10), 10);
        ck_assert_mem_eq(got, want[epoch], sizeof(got));
        ddp_sampler_free(s);
    }
}

/* Every sample comes to every place about equally often over the epochs. */
TEST(test_sampler_shuffle_is_even)
{
    enum {
        N = 8,
        EPOCHS = 16000
    };
    static int count[N][N];
    struct ddp_sampler *s = make(N, 0, 1, 1);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        uint32_t got[N];
        ck_assert_int_eq(ddp_sampler_seek(s, epoch, 0, NULL), 0);
        ck_assert_uint_eq(ddp_sampler_next(s, got, N), N);
        for (int i = 0; i < N; i++)
            count[i][got[i]]++;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            ck_assert_int_gt(count[i][k], EPOCHS / N - 250);
            ck_assert_int_lt(count[i][k], EPOCHS / N + 250);
        }
    ddp_sampler_free(s);
}

/* What is no sampler, and no position. */
TEST(test_sampler_bad_arguments_are_refused)
{
    static const struct ddp_sampler_conf bad[] = {
        {.samples = 0, .rank = 0, .world = 1},
        {.samples = UINT64_C(1) << 32, .rank = 0, .world = 1},
        {.samples = 1, .rank = 1, .world = 1},
        {.samples = 1, .rank = -1, .world = 1},
        {.samples = 1, .rank = 0, .world = 0},
    };
    struct ddp_error e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_ptr_null(ddp_sampler_new(&bad[i], &e));
        ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    }
    struct ddp_sampler *s = make(5, 0, 1, 1);
    uint32_t got[5];
    ck_assert_int_eq(ddp_sampler_seek(s, -1, 0, &e), -1);
    ck_assert_int_eq(ddp_sampler_seek(s, 0, -1, &e), -1);
    ck_assert_int_eq(e.code, DDP_ERR_USAGE);
    ck_assert_int_eq(ddp_sampler_seek(s, INT64_MAX, INT64_MAX, &e), 0);
    ck_assert_uint_eq(ddp_sampler_next(s, got, 5), 0);
    ck_assert_int_eq(ddp_sampler_position(s), INT64_MAX);
    ddp_sampler_free(s);
    ddp_sampler_free(NULL);
}

SUITE("sampler", "dealing")
