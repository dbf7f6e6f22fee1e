/* links: launcher/hang/pauses rendezvous/base/{err,mono} */
/*
 * How long is too long: what is learned, and what is not.
 * tests/sim/check_pauses plays hours.
 */
#include <check.h>

#include "launcher/hang/pauses.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static struct pauses p;
static int64_t now_us;

static void setup(void)
{
    now_us = 7 * MONO_S;
    pauses_init(&p);
    pauses_begin(&p, now_us);
}

static bool step(int64_t s, bool beat)
{
    now_us += s * MONO_S;
    return pauses_moved(&p, beat, now_us);
}

static void steps(int n, int64_t s, bool beat)
{
    for (int i = 0; i < n; i++)
        ck_assert(!step(s, beat));
}

/* Nothing but such looks: after how many seconds that is the verdict; -1: not
 * in an hour. */
static int64_t after(enum pauses_look look, enum pauses_verdict verdict)
{
    int64_t from_us = now_us;
    for (; now_us < from_us + 3600 * MONO_S; now_us += MONO_S)
        if (pauses_is_due(&p, now_us) &&
            pauses_judge(&p, look, now_us) == verdict)
            return (now_us - from_us) / MONO_S;
    return -1;
}

static int64_t told_after(enum pauses_look look)
{
    int64_t s = after(look, PAUSES_TOO_LONG);
    if (s >= 0)
        pauses_tell(&p);
    return s;
}

TEST_LOOP(test_pauses_limit_is_a_multiple_of_the_longest, 0, 5)
{
    static const struct {
        int64_t step_s;
        bool beats;
        int64_t told_s;
    } cases[] = {
        {1, true, 10},  {3, true, 10},    {20, true, 50},
        {1, false, 60}, {40, false, 100},
    };
    steps(PAUSES_RHYTHM + 1, cases[_i].step_s, cases[_i].beats);
    ck_assert_int_eq(pauses_longest_us(&p), cases[_i].step_s * MONO_S);
    ck_assert_int_eq(told_after(PAUSES_STILL), cases[_i].told_s);
    ck_assert(!pauses_is_due(&p, now_us + 3600 * MONO_S)); /* once */
}

/* The first progress ends another phase, with a limit of its own. */
TEST(test_pauses_start_is_compared_with_starts)
{
    ck_assert_int_eq(told_after(PAUSES_STILL), -1);
    pauses_begin(&p, now_us);
    steps(1, 100, true);
    steps(PAUSES_RHYTHM, 1, true);
    ck_assert_int_eq(told_after(PAUSES_STILL), 10);
    pauses_begin(&p, now_us);
    ck_assert_int_eq(told_after(PAUSES_STILL), 250);
}

/* Lines at the start are no rhythm, and silence without one is no hang. */
TEST(test_pauses_without_a_rhythm_only_a_stopped_rank_is_told)
{
    steps(PAUSES_RHYTHM - 1, 1, false);
    ck_assert_int_eq(told_after(PAUSES_STILL), -1);
    setup();
    steps(PAUSES_RHYTHM - 1, 1, false);
    ck_assert_int_eq(told_after(PAUSES_ODD), 60);
}

/* With nothing to compare with, at the start and behind its first lines; not
 * once there is a rhythm, and only once if they wait for nobody. */
TEST(test_pauses_without_a_rhythm_silent_ones_are_suspected)
{
    for (int lines = 0; lines < PAUSES_RHYTHM; lines += PAUSES_RHYTHM - 1) {
        setup();
        steps(lines, 1, false);
        ck_assert_int_eq(after(PAUSES_STILL, PAUSES_SUSPECT), 120);
        ck_assert_int_gt(after(PAUSES_SPINS, PAUSES_SUSPECT), 0);
        pauses_excuse(&p);
        ck_assert_int_eq(after(PAUSES_STILL, PAUSES_SUSPECT), -1);
    }
    steps(1, 1, false);
    ck_assert_int_eq(after(PAUSES_STILL, PAUSES_SUSPECT), -1);
    setup();
    ck_assert_int_eq(after(PAUSES_WORKS, PAUSES_SUSPECT), -1);
}

TEST(test_pauses_who_works_is_not_told)
{
    steps(PAUSES_RHYTHM, 1, true);
    ck_assert_int_eq(told_after(PAUSES_WORKS), -1);
}

/* Whether it spins or works cannot be told: the longer time counts. */
TEST(test_pauses_who_spins_has_longer)
{
    steps(PAUSES_RHYTHM, 1, true);
    int64_t s = told_after(PAUSES_SPINS);
    ck_assert_int_ge(s, 60);
    ck_assert_int_le(s, 68);
}

/* After it was told, it goes on: said once, and learned. */
TEST(test_pauses_told_one_that_ends_is_learned)
{
    steps(PAUSES_RHYTHM, 1, true);
    ck_assert_int_eq(told_after(PAUSES_STILL), 10);
    ck_assert(step(10, true));
    ck_assert(!step(1, true));
    ck_assert_int_eq(told_after(PAUSES_STILL), 50);
}

/* What somebody stops is not: all of them, or one. */
TEST(test_pauses_that_somebody_made_are_not_learned)
{
    steps(PAUSES_RHYTHM, 1, true);
    ck_assert_int_eq(told_after(PAUSES_HELD), -1);
    steps(1, 1, true);
    ck_assert_int_eq(pauses_longest_us(&p), MONO_S);
    ck_assert_int_eq(told_after(PAUSES_ODD), 10);
    ck_assert(step(300, true));
    ck_assert_int_eq(pauses_longest_us(&p), MONO_S);
}

/* A node that is asked by another one must not take the last look at workers
 * that are stopped for their last move. */
TEST(test_pauses_of_the_held_are_silent_since_they_moved)
{
    steps(PAUSES_RHYTHM, 1, true);
    int64_t moved_us = now_us;
    ck_assert_int_eq(told_after(PAUSES_HELD), -1);
    ck_assert_int_eq(pauses_silent_us(&p, now_us), now_us - moved_us);
    ck_assert_int_gt(now_us - moved_us, 10 * MONO_S);
}

/* They need a moment to go on again. */
TEST(test_pauses_after_a_freeze_there_is_time)
{
    steps(PAUSES_RHYTHM, 1, true);
    ck_assert_int_eq(told_after(PAUSES_HELD), -1);
    ck_assert_int_ge(told_after(PAUSES_STILL), 5);
}

SUITE("pauses", "pauses", .tags = "fast", FIXTURE(setup, NULL))
