/* links: rendezvous/core/slow worker_rt/own_part */
/* links: rendezvous/base/{err,mono,rng} */
/* libs: -lm */
/* From how long each rank computed and waited in each step to the rank that is
 * slower than the others: the window of the last steps, the median, and whether
 * noise makes a rank slow, or hides one that is. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/core/slow.h"
#include "tests/lib/suite.h"
#include "worker_rt/own_part.h"

static struct own_part own;
static int64_t now_us;

static void setup(void)
{
    own = (struct own_part){.n = 0};
    now_us = 1000;
}

/* The rank computes, and waits for others. */
static void take(int64_t step, int64_t part_us, int64_t waits_us)
{
    now_us += part_us + waits_us;
    own_part_wait(&own, waits_us);
    own_part_step(&own, step, now_us);
}

static int64_t mean(void)
{
    int64_t mean_us, noise_us;
    return own_part_usual(&own, &mean_us, &noise_us) ? mean_us : -1;
}

/* -- the window ------------------------------------------------------------ */

/* The first call begins a step; what was waited before it is of no step. */
TEST(test_own_part_is_the_step_without_the_wait)
{
    take(7, 500, 90000);
    for (int i = 0; i < OWN_PART_STEPS; i++) {
        ck_assert_int_eq(mean(), -1);
        take(8 + i, 1000, 5000 - i);
        own_part_step(&own, 8 + i, now_us + 77); /* the same step, told twice */
    }
    ck_assert_int_eq(mean(), 1000);
}

/* A program that beats in each tenth step, and one that begins anew. */
TEST(test_own_part_is_of_one_step)
{
    for (int i = 0; i <= OWN_PART_STEPS; i++)
        take(10 * i, 10000, 300);
    ck_assert_int_eq(mean(), 1000);
    take(5, 1000, 0);
    ck_assert_int_eq(mean(), -1);
    for (int i = 0; i < OWN_PART_STEPS; i++)
        take(6 + i, 2000, 0);
    ck_assert_int_eq(mean(), 2000);
}

/* A checkpoint in each fifth step is none of what is usual; what lasts is. */
TEST(test_own_part_is_what_is_usual)
{
    int64_t mean_us, noise_us;
    for (int i = 0; i < 100; i++)
        take(i, i % 5 == 0 ? 90000 : 1000, 0);
    ck_assert(own_part_usual(&own, &mean_us, &noise_us));
    ck_assert_int_eq(mean_us, 1000);
    ck_assert_int_eq(noise_us, 0); /* of most steps */
    for (int i = 100; i < 100 + OWN_PART_STEPS; i++)
        take(i, i % 2 == 0 ? 1000 : 2000, 0);
    ck_assert(own_part_usual(&own, &mean_us, &noise_us));
    ck_assert_int_eq(mean_us, 1500);
    ck_assert_int_eq(noise_us, 1050);
}

/* More was waited than time has passed: another clock went back, say. */
TEST(test_own_part_is_never_below_zero)
{
    take(0, 1000, 0);
    for (int i = 1; i <= OWN_PART_STEPS; i++) {
        own_part_wait(&own, 9000);
        take(i, 1000, 0);
    }
    ck_assert_int_eq(mean(), 0);
}

/* -- the median ------------------------------------------------------------ */

#define NODE(slowest, others, count)                                           \
    {                                                                          \
        .most_us = (slowest), .rest_us = (others), .rest = (count)             \
    }

static const struct {
    struct slow_told told[5];
    int64_t median_us;
} cases[] = {
    {{NODE(0, 0, 0)}, 0},
    {{NODE(110, 0, 0)}, 0}, /* one rank */
    {{NODE(110, 100, 1)}, 100},
    {{NODE(110, 0, 0), NODE(100, 0, 0)}, 100},
    {{NODE(110, 0, 0), NODE(100, 0, 0), NODE(104, 0, 0)}, 102},
    {{NODE(90, 0, 0), NODE(130, 0, 0), NODE(100, 0, 0), NODE(104, 0, 0)}, 100},
    {{NODE(90, 0, 0), NODE(0, 0, 0), NODE(100, 0, 0)}, 90},
    /* The other ranks of a node count as so many. */
    {{NODE(200, 100, 7), NODE(300, 150, 3), NODE(400, 160, 2)}, 125},
    {{NODE(200, 100, 3), NODE(300, 150, 7), NODE(400, 160, 3)}, 150},
};

CASE("judge")

TEST_EACH(test_slow_median_is_of_all_but_the_slowest, cases)
{
    ck_assert_int_eq(slow_median_us(cases[_i].told, 5), cases[_i].median_us);
}

/* -- who is slow ----------------------------------------------------------- */

static int permille(int64_t most_us, int64_t noise_us, bool was_slow)
{
    const struct slow_told t = {.most_us = most_us, .noise_us = noise_us};
    return slow_permille(&t, 100000, was_slow);
}

TEST(test_slow_is_who_is_so_for_sure)
{
    ck_assert_int_eq(permille(112000, 1000, false), 120);
    ck_assert_int_eq(permille(106000, 1000, false), 0);
    ck_assert_int_eq(permille(112000, 20000, false), 0); /* may be noise */
    ck_assert_int_eq(permille(90000, 0, false), 0);
    ck_assert_int_eq(permille(0, 0, true), 0); /* it tells nothing any more */
    /* Once slow, it is so until it is nearly as fast as the others. */
    ck_assert_int_eq(permille(105000, 1000, true), 50);
    ck_assert_int_eq(permille(104000, 1000, true), 0);
    ck_assert_int_eq(permille(118000, 20000, true), 180);
    ck_assert_int_eq(permille(116000, 20000, true), 0);
    const struct slow_told t = {.most_us = 1000};
    ck_assert_int_eq(slow_permille(&t, 900, false), 0); /* 0.1 ms */
    ck_assert_int_eq(slow_permille(&t, 0, false), 0);
}

/* -- noise ----------------------------------------------------------------- */

#define RANKS   4
#define PART_US 100000.0

static struct rng rng;

/* The polar method. */
static double gauss(void)
{
    double x, y, r;
    do {
        x = rng_below(&rng, 2000001) / 1e6 - 1;
        y = rng_below(&rng, 2000001) / 1e6 - 1;
        r = x * x + y * y;
    } while (r >= 1 || r == 0.0);
    return x * sqrt(-2 * log(r) / r);
}

struct world {
    struct own_part own[RANKS];
    int64_t now_us, step;
    bool slow[RANKS];
};

/* One step of all; `late` takes `factor` times as long. Each rank is its own
 * node. Returns how many ranks are slow now. */
static int step(struct world *w, double noise, int late, double factor)
{
    int64_t parts[RANKS], longest = 0;
    struct slow_told told[RANKS] = {{.most_us = 0}};
    int slow = 0;
    for (int r = 0; r < RANKS; r++) {
        double part =
            PART_US * (1 + noise * gauss()) * (r == late ? factor : 1);
        parts[r] = part > 1 ? (int64_t)part : 1;
        longest = parts[r] > longest ? parts[r] : longest;
    }
    w->now_us += longest;
    w->step++;
    for (int r = 0; r < RANKS; r++) {
        own_part_wait(&w->own[r], longest - parts[r]);
        own_part_step(&w->own[r], w->step, w->now_us);
        if (!own_part_usual(&w->own[r], &told[r].most_us, &told[r].noise_us))
            told[r].most_us = 0;
    }
    int64_t median_us = slow_median_us(told, RANKS);
    for (int r = 0; r < RANKS; r++) {
        w->slow[r] = slow_permille(&told[r], median_us, w->slow[r]) > 0;
        slow += w->slow[r];
    }
    return slow;
}

CASE("noise")

/* 10^5 steps of four ranks, looked at after each. With a noise of 5 % none is
 * called slow; with one of 30 % hardly one is. */
TEST_LOOP(test_slow_is_nobody_by_noise, 0, 2)
{
    static const double noise[] = {0.05, 0.3};
    static const int most[] = {0, 100};
    struct world w = {.now_us = 1};
    int wrong = 0;
    rng_init(&rng, 34);
    for (int i = 0; i < 100000; i++)
        wrong += step(&w, noise[_i], -1, 1);
    ck_assert_int_le(wrong, most[_i]);
}

/* How many of 100 are named within 40 steps, and how many are free of it 40
 * steps after it is over. */
TEST(test_slow_is_who_is_slower_by_a_tenth)
{
    int named = 0, others = 0, freed = 0;
    rng_init(&rng, 10);
    for (int i = 0; i < 100; i++) {
        struct world w = {.now_us = 1};
        int late = i % RANKS, at = -1;
        for (int k = 0; k < 40 + i; k++)
            (void)step(&w, 0.05, -1, 1);
        for (int k = 0; k < 40 && at < 0; k++) {
            int slow = step(&w, 0.05, late, 1.1);
            at = w.slow[late] ? k : -1;
            others += slow - w.slow[late];
        }
        named += at >= 0;
        for (int k = 0; k < 40; k++)
            (void)step(&w, 0.05, -1, 1);
        freed += !w.slow[late];
    }
    ck_assert_int_ge(named, 99);
    ck_assert_int_eq(others, 0);
    ck_assert_int_eq(freed, 100);
}

CASE("cost")

#define TIMES   100000
#define MOST_US (TIMES * INT64_C(100)) /* 0.1 % of a step of 100 ms, each */

/* What a rank does in each step for it. */
TEST(test_slow_costs_a_thousandth_of_a_step)
{
    int64_t mean_us, noise_us, sum_us = 0;
    int64_t began_us = mono_now_us();
    for (int i = 0; i < TIMES; i++) {
        take(i, 100000 + i * 7919 % 5000, 300);
        if (own_part_usual(&own, &mean_us, &noise_us))
            sum_us += mean_us;
    }
    int64_t took_us = mono_now_us() - began_us;
    ck_assert_int_gt(sum_us, 0);
    (void)printf("a step: %.2f us\n", (double)took_us / TIMES);
    ck_assert_int_le(took_us, MOST_US);
}

SUITE("slow", "window", FIXTURE(setup, NULL))
