/* links: launcher/worker/hang rendezvous/base/{err,mono} */
/*
 * Which worker gets nowhere: what counts as progress, who is blamed, and that
 * time in which all are paused counts against nobody.
 */
#include <check.h>

#include "launcher/worker/hang.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

#define N 3

static struct hang hang;
static struct hang_worker workers[N];
static struct hang_verdict verdict;

static void begin(int64_t beat_us, int64_t idle_us)
{
    struct hang_limits limits = {.beat_us = beat_us, .idle_us = idle_us};
    hang_init(&hang, &limits, workers, N);
    for (int i = 0; i < N; i++)
        hang_started(&hang, i);
}

/* Up to this time on the clock of the core, which runs. */
static void run_to(int64_t at_us)
{
    hang_pass(&hang, at_us - hang.clock_us, HANG_RUNS);
}

static void see(int rank, int64_t at_us, struct hang_sample sample)
{
    run_to(at_us);
    hang_see(&hang, rank, &sample);
}

static bool finds(int64_t at_us)
{
    run_to(at_us);
    return hang_find(&hang, &verdict);
}

static const struct hang_sample nothing = {.step = -1};

TEST(test_hang_without_limits_nothing_is_found)
{
    begin(MONO_NEVER, MONO_NEVER);
    ck_assert(!finds(INT64_C(1) << 60));
    hang_worst(&hang, &verdict);
    ck_assert_int_eq(verdict.silent_us, INT64_C(1) << 60);
}

TEST(test_hang_silence_is_counted_from_the_start)
{
    begin(MONO_NEVER, 100);
    for (int i = 0; i < N; i++)
        see(i, 50, nothing);
    ck_assert(!finds(99));
    ck_assert(finds(100));
    ck_assert(!verdict.beat);
    ck_assert_int_eq(verdict.silent_us, 100);
    ck_assert_int_eq(verdict.step, -1);
}

/* Each kind of change by itself; the same sample twice is none. */
TEST_LOOP(test_hang_what_progress_is, 0, 4)
{
    static const struct {
        struct hang_sample sample;
        bool moves;
    } cases[] = {
        {{.step = -1, .written = 7}, true},
        {{.step = -1, .output = 1}, true},
        {{.step = 0}, true},
        {{.step = -1}, false},
    };
    begin(MONO_NEVER, 100);
    for (int i = 1; i < N; i++)
        hang_ended(&hang, i);
    see(0, 60, cases[_i].sample);
    ck_assert_int_eq(finds(110), !cases[_i].moves);
    see(0, 120, cases[_i].sample);
    ck_assert(finds(160));
}

/* A worker that never beat is not held to it; one that has is, whatever it
 * prints. */
TEST(test_hang_beats_bind_whoever_has_beaten)
{
    begin(100, MONO_NEVER);
    see(0, 10, (struct hang_sample){.step = 1, .written = 1});
    for (int64_t t = 20; t <= 300; t += 20) {
        see(0, t, (struct hang_sample){.step = 1, .written = 1, .output = t});
        see(1, t, (struct hang_sample){.step = -1, .output = t});
        ck_assert_int_eq(finds(t), t >= 110);
    }
    ck_assert(verdict.beat);
    ck_assert_int_eq(verdict.local_rank, 0);
    ck_assert_int_eq(verdict.step, 1);
    ck_assert_int_eq(verdict.silent_us, 290);
}

TEST(test_hang_blames_fewest_steps_then_longest_silence)
{
    begin(MONO_NEVER, 100);
    see(0, 10, (struct hang_sample){.step = 8});
    see(2, 20, (struct hang_sample){.step = 7});
    see(1, 30, (struct hang_sample){.step = 7});
    ck_assert(finds(500));
    ck_assert_int_eq(verdict.local_rank, 2);
    hang_ended(&hang, 2);
    ck_assert(finds(500));
    ck_assert_int_eq(verdict.local_rank, 1);
    hang_ended(&hang, 1);
    hang_ended(&hang, 0);
    ck_assert(!finds(500));
}

TEST(test_hang_a_pause_counts_against_nobody)
{
    begin(100, 100);
    see(0, 50, (struct hang_sample){.step = 1});
    hang_pass(&hang, 10000, HANG_STANDS);
    hang_pass(&hang, 10000, HANG_STANDS);
    ck_assert(!finds(149));
    ck_assert(finds(150));
    ck_assert_int_eq(verdict.silent_us, 100);
}

/* A worker that is served late has the time once more, but not for ever: a
 * worker that does nothing hangs beside one that fills the console again and
 * again. */
TEST(test_hang_after_a_pause_all_have_the_whole_time_once)
{
    begin(MONO_NEVER, 100);
    run_to(50);
    hang_pass(&hang, 7, HANG_STANDS);
    hang_started(&hang, 1);
    ck_assert(!finds(149)); /* from 50 on */
    for (int64_t at = 60; at < 150; at += 10) {
        begin(MONO_NEVER, 100);
        run_to(50);
        for (int64_t t = 50; t < at; t++) {
            hang_pass(&hang, 100, HANG_STANDS);
            see(0, t + 1, (struct hang_sample){.step = -1, .output = t});
        }
        ck_assert(!finds(149));
    }
    hang_pass(&hang, 100, HANG_STANDS);
    ck_assert(finds(150));
    ck_assert_int_ne(verdict.local_rank, 0);
}

/* Beside a console that is full, and takes something, a tenth of the time
 * counts: a worker that moves has nothing from that, one that does not is
 * found. */
TEST(test_hang_a_tenth_counts_beside_a_slow_console)
{
    begin(MONO_NEVER, 100);
    hang_ended(&hang, 2);
    for (int64_t at = 10; at <= 1000; at += 10) {
        hang_pass(&hang, 10, HANG_SLOW);
        hang_see(&hang, 0, &(struct hang_sample){.step = -1, .output = at});
        hang_see(&hang, 1, &nothing);
        ck_assert_int_eq(hang_find(&hang, &verdict), at == 1000);
    }
    ck_assert_int_eq(verdict.local_rank, 1);
    ck_assert_int_eq(verdict.silent_us, 100);
}

/* One that moved has the whole time when the clock stood again. */
TEST(test_hang_anew_is_once_until_it_moves)
{
    begin(MONO_NEVER, 100);
    run_to(90);
    hang_pass(&hang, 5, HANG_STANDS);
    see(0, 150, (struct hang_sample){.step = 0});
    run_to(180);
    hang_pass(&hang, 5, HANG_STANDS);
    ck_assert(!finds(189));
    ck_assert(finds(190));
    hang_ended(&hang, 1);
    hang_ended(&hang, 2);
    ck_assert(!finds(279));
    ck_assert(finds(280));
}

/* A worker of the next round owes nothing for the one before. */
TEST(test_hang_a_new_round_begins_anew)
{
    begin(100, MONO_NEVER);
    see(0, 10, (struct hang_sample){.step = 5});
    ck_assert(finds(200));
    hang_started(&hang, 0);
    ck_assert(!finds(1000));
}

TEST(test_hang_looks_often_enough_and_not_too_often)
{
    begin(MONO_NEVER, 10 * MONO_S);
    ck_assert_int_eq(hang_every_us(&hang), 500 * MONO_MS);
    begin(20 * MONO_MS, 10 * MONO_S);
    ck_assert_int_eq(hang_every_us(&hang), 50 * MONO_MS);
    begin(MONO_NEVER, 86400 * MONO_S);
    ck_assert_int_eq(hang_every_us(&hang), 5 * MONO_S);
}

SUITE("hang", "hang", .tags = "fast")
