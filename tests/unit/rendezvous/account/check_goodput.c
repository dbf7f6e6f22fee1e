/* links: ACCOUNT rendezvous/base/{json,buf,utf8,mono,err,rng} */
/* links: rendezvous/core/pace */
/* Where a run's time went: do the parts always sum up to it, does each second
 * go where it belongs, and is what a server tells the next one what that one
 * reads? */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/account/goodput.h"
#include "rendezvous/core/pace.h"
#include "rendezvous/account/timeline.h"
#include "tests/lib/suite.h"

static struct goodput g;

static void expect(int64_t now_s,
                   int64_t ran_s,
                   int64_t waited_s,
                   int64_t detect_s,
                   int64_t restart_s)
{
    struct goodput_parts p = goodput_get(&g, now_s * MONO_S);
    ck_assert_int_eq(p.ran_us, ran_s * MONO_S);
    ck_assert_int_eq(p.waited_us, waited_s * MONO_S);
    ck_assert_int_eq(p.detect_us, detect_s * MONO_S);
    ck_assert_int_eq(p.restart_us, restart_s * MONO_S);
}

/* Nodes come until 5, workers start until 6; from 6 to 16 all ranks run. */
static void setup_running(void)
{
    goodput_begin(&g, 0);
    goodput_enter(&g, GOODPUT_STARTS, 5 * MONO_S);
    goodput_enter(&g, GOODPUT_RUNS, 6 * MONO_S);
}

/* A time that has not ended counts as well. */
TEST(test_each_second_goes_to_one_part)
{
    setup_running();
    expect(16, 10, 5, 0, 1);
    goodput_enter(&g, GOODPUT_STARTS, 16 * MONO_S);
    goodput_enter(&g, GOODPUT_WAITS, 18 * MONO_S);
    expect(20, 10, 7, 0, 3);
    goodput_enter(&g, GOODPUT_OVER, 21 * MONO_S);
    expect(99, 10, 8, 0, 3);
}

/* The part that grows, and the share: of no time it is 0. */
TEST(test_what_grows_has_the_name_of_its_part)
{
    struct goodput_parts p = {.ran_us = 0};
    ck_assert_double_eq(goodput_share(&p), 0);
    goodput_begin(&g, 0);
    ck_assert_str_eq(goodput_grows(&g), "waited");
    goodput_enter(&g, GOODPUT_STARTS, 5 * MONO_S);
    ck_assert_str_eq(goodput_grows(&g), "restart");
    goodput_enter(&g, GOODPUT_RUNS, 6 * MONO_S);
    ck_assert_str_eq(goodput_grows(&g), "ran");
    goodput_bad(&g, 7 * MONO_S);
    ck_assert_str_eq(goodput_grows(&g), "detect");
    goodput_enter(&g, GOODPUT_OVER, 8 * MONO_S);
    ck_assert_str_eq(goodput_grows(&g), "");
    p = goodput_get(&g, 8 * MONO_S);
    ck_assert_double_eq(goodput_share(&p), 0.125);
}

/* The worker died at 13, and that was known at 16. */
TEST(test_time_after_a_death_is_detection)
{
    setup_running();
    goodput_bad(&g, 13 * MONO_S);
    expect(16, 7, 5, 3, 1);
    goodput_enter(&g, GOODPUT_STARTS, 16 * MONO_S);
    expect(16, 7, 5, 3, 1);
}

/* The cause that comes to light while workers stop is an older one. */
TEST(test_an_older_sign_moves_time_that_was_counted)
{
    setup_running();
    goodput_bad(&g, 15 * MONO_S);
    goodput_enter(&g, GOODPUT_STARTS, 16 * MONO_S);
    expect(17, 9, 5, 1, 2);
    goodput_bad(&g, 10 * MONO_S);
    expect(17, 4, 5, 6, 2);
    goodput_bad(&g, 12 * MONO_S); /* a younger one changes nothing */
    expect(17, 4, 5, 6, 2);
}

/* A node's last word may be older than the round; what was before it ran is no
 * detection. */
TEST(test_a_sign_before_the_round_takes_no_more_than_it)
{
    setup_running();
    goodput_bad(&g, 2 * MONO_S);
    goodput_enter(&g, GOODPUT_STARTS, 16 * MONO_S);
    expect(16, 0, 5, 10, 1);
}

/* The sign belongs to the round that it ended. */
TEST(test_a_sign_does_not_outlive_its_round)
{
    setup_running();
    goodput_bad(&g, 13 * MONO_S);
    goodput_enter(&g, GOODPUT_STARTS, 16 * MONO_S);
    goodput_enter(&g, GOODPUT_RUNS, 17 * MONO_S);
    expect(27, 17, 5, 3, 2);
}

/* Nothing has run that could have gone wrong. */
TEST(test_a_sign_before_the_first_round_is_none)
{
    goodput_begin(&g, 5 * MONO_S);
    goodput_bad(&g, 9 * MONO_S);
    goodput_bad(&g, 6 * MONO_S);
    expect(15, 0, 10, 0, 0);
    goodput_check(&g, 15 * MONO_S);
}

/* Random lives: the parts are never negative, and sum up to the microsecond. */
TEST_LOOP(test_parts_sum_up_to_the_age, 0, 20)
{
    struct rng rng;
    rng_init(&rng, (uint64_t)_i + 1);
    int64_t now_us = -5 * MONO_S, began_us = now_us;
    goodput_begin(&g, now_us);
    for (int i = 0; i < 1000; i++) {
        now_us += rng_below(&rng, 1000000);
        if (rng_below(&rng, 3) == 0)
            goodput_bad(&g, now_us - rng_below(&rng, 3000000));
        else
            goodput_enter(&g, GOODPUT_WAITS + rng_below(&rng, 3), now_us);
        struct goodput_parts p = goodput_get(&g, now_us + 7);
        ck_assert_int_eq(goodput_wall_us(&p), now_us + 7 - began_us);
        goodput_check(&g, now_us + 7);
    }
}

CASE("told", .tags = "fast")

/* -- from server to server ------------------------------------------------- */

TEST(test_what_is_told_is_read)
{
    struct goodput_sums read, told = {.parts = {.ran_us = 123456,
                                                .waited_us = 2000,
                                                .detect_us = 3999,
                                                .restart_us = 4000,
                                                .repeated_us = 5000,
                                                .repeated_steps = 17},
                                      .steps = 18,
                                      .started_us = 6000};
    char text[GOODPUT_TEXT_MAX + 1];
    goodput_print(&told, text);
    ck_assert_str_eq(text, "123 2 3 4 5 6 17 18");
    ck_assert(goodput_parse(&read, text));
    ck_assert_int_eq(read.parts.ran_us, 123000);
    ck_assert_int_eq(read.parts.repeated_steps, 17);
    ck_assert_int_eq(read.steps, 18);
    ck_assert_int_eq(read.started_us, 6000);
}

/* The largest numbers fit, and nothing above them is believed. */
TEST(test_the_text_is_bounded)
{
    const int64_t most = INT64_MAX;
    struct goodput_sums read,
        all = {{most, most, most, most, most, most}, most, most};
    char text[GOODPUT_TEXT_MAX + 1];
    goodput_print(&all, text);
    ck_assert(goodput_parse(&read, text));
    ck_assert(goodput_wall_us(&read.parts) > 0);
}

TEST(test_nonsense_is_not_read)
{
    static const char *const wrong[] = {
        "",
        "1 2 3 4 5 6 7",
        "1 2 3 4 5 6 7 8 9",
        "1 2 3 4 5 6 7 8 ",
        " 1 2 3 4 5 6 7 8",
        "1 2 3 4 5 6 7 x",
        "1 -2 3 4 5 6 7 8",
        "1 2  3 4 5 6 7 8",
        "1000000000001 2 3 4 5 6 7 8",
        "99999999999999999999 2 3 4 5 6 7 8",
        "1 2 3 4 5 6 7 99999999999999999999",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct goodput_sums sums = {.steps = 42};
        ck_assert_msg(!goodput_parse(&sums, wrong[i]), "'%s'", wrong[i]);
        ck_assert_int_eq(sums.steps, 42);
    }
}

/* A new server was asked first at 100; the round is 30 old, and ran after 4. */
TEST(test_the_next_server_counts_on)
{
    struct goodput_parts told = {.ran_us = 50 * MONO_S,
                                 .waited_us = 6 * MONO_S,
                                 .detect_us = 2 * MONO_S,
                                 .restart_us = 3 * MONO_S};
    goodput_resume(&g, &told, 71 * MONO_S);
    goodput_enter(&g, GOODPUT_RUNS, 75 * MONO_S);
    expect(101, 76, 6, 2, 7);
    goodput_bad(&g, 91 * MONO_S); /* a member had to stop */
    goodput_enter(&g, GOODPUT_STARTS, 101 * MONO_S);
    expect(101, 66, 6, 12, 7);
    goodput_check(&g, 101 * MONO_S);
}

/* What counted as ran was the program's start, as is known later. */
TEST(test_what_was_a_start_did_not_run)
{
    setup_running();
    goodput_start_over(&g, 10 * MONO_S);
    expect(16, 6, 5, 0, 5);
    goodput_bad(&g, 8 * MONO_S); /* before it ran */
    expect(16, 0, 5, 6, 5);
    goodput_check(&g, 16 * MONO_S);
}

/* -- the timeline ---------------------------------------------------------- */

CASE("rounds", .tags = "fast")

/* What stopping and starting took is the round's that made it necessary. */
TEST(test_a_round_pays_for_its_end)
{
    static struct timeline t;
    const struct goodput_parts run = {.ran_us = 10},
                               stop = {.detect_us = 1, .restart_us = 3},
                               wait = {.waited_us = 7};
    t.known = 0;
    timeline_spend(&t, &wait); /* for the first round: nobody's */
    struct timeline_round *first = timeline_add(&t, 1);
    timeline_spend(&t, &wait);
    timeline_spend(&t, &run);
    first->end = ROUND_FAILED;
    timeline_spend(&t, &stop);
    struct timeline_round *second = timeline_add(&t, 2);
    timeline_spend(&t, &wait);
    timeline_spend(&t, &run);
    ck_assert_int_eq(first->cost.ran_us, 10);
    ck_assert_int_eq(first->cost.detect_us, 1);
    ck_assert_int_eq(first->cost.restart_us, 3);
    ck_assert_int_eq(first->cost.waited_us, 7);
    ck_assert_int_eq(second->cost.ran_us, 10);
    ck_assert_int_eq(second->cost.waited_us, 0);
}

TEST(test_the_timeline_keeps_the_newest_rounds)
{
    static struct timeline t;
    t.known = 0;
    for (int i = 1; i <= TIMELINE_ROUNDS + 5; i++)
        timeline_add(&t, i)->end = ROUND_LOST;
    ck_assert_int_eq(timeline_len(&t), TIMELINE_ROUNDS);
    ck_assert_int_eq(timeline_at(&t, 0)->number, 6);
    ck_assert_int_eq(timeline_last(&t)->number, TIMELINE_ROUNDS + 5);
    ck_assert_str_eq(timeline_word(timeline_last(&t)->end), "lost");
}

/* -- steps ----------------------------------------------------------------- */

TEST(test_the_pace_is_of_the_last_seconds)
{
    struct pace p = {.steps = 0};
    int64_t steps = 1;
    pace_take(&p, 0, 0, 0, MONO_S);
    ck_assert_int_eq(p.steps, 0);
    ck_assert_int_eq(pace_micro(&p), 0);
    for (int s = 0; s < 60; s++, steps += s < 30 ? 10 : 2)
        pace_take(&p, steps, 3, 1, s * MONO_S);
    ck_assert_int_eq(pace_micro(&p), 2 * MONO_S);
    for (int s = 60; s < 75; s++)
        pace_take(&p, steps, 3, 1, s * MONO_S);
    ck_assert_int_eq(pace_micro(&p), 0);
    pace_take(&p, 1, 0, 0, 76 * MONO_S); /* they count anew */
    pace_take(&p, 3, 0, 0, 77 * MONO_S);
    ck_assert_int_eq(pace_micro(&p), 2 * MONO_S);
}

/* What was told by a time in the past is never more than was told then. */
TEST(test_steps_by_then_were_told_by_then)
{
    struct pace p = {.steps = 0};
    ck_assert_int_eq(pace_steps_by(&p, MONO_S), 0);
    pace_take(&p, 31, 0, 0, 1 * MONO_S);
    pace_take(&p, 31, 0, 0, 2 * MONO_S);
    pace_take(&p, 40, 0, 0, 9 * MONO_S);
    pace_take(&p, 41, 0, 0, 10 * MONO_S);
    ck_assert_int_eq(pace_steps_by(&p, 10 * MONO_S), 41);
    ck_assert_int_eq(pace_steps_by(&p, 9 * MONO_S), 40);
    ck_assert_int_eq(pace_steps_by(&p, 8 * MONO_S), 31);
    ck_assert_int_eq(pace_steps_by(&p, MONO_S / 2), 0);
    ck_assert(!p.anew);
    pace_take(&p, 2, 0, 0, 11 * MONO_S);
    ck_assert(p.anew);
}

/* Workers that tell their step when they save, every minute: what the beats
 * between say is no news, and no standstill. */
TEST(test_pace_of_seldom_steps_is_theirs)
{
    struct pace p = {.steps = 0};
    for (int s = 1; s <= 300; s++) {
        pace_take(&p, 1 + s / 60 * 120, 0, 0, s * MONO_S);
        if (s >= 120)
            ck_assert_int_eq(pace_micro(&p), 2 * MONO_S);
    }
    pace_take(&p, 601, 0, 0, 421 * MONO_S); /* twice as long, and no save */
    ck_assert_int_eq(pace_micro(&p), 0);
}

SUITE("goodput", "parts", .tags = "fast")
