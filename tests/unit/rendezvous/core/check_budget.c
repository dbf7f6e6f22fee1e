/* links: rendezvous/core/budget rendezvous/base/err */
/*
 * The budget of restarts: how many, in which time, and the crash loop.
 */
#include <check.h>

#include "rendezvous/core/budget.h"
#include "tests/lib/suite.h"

#define WINDOW 1000

TEST(test_budget_without_window_is_used_up_by_exactly_so_many)
{
    struct budget b;
    budget_init(&b, 3, 0, 0);
    for (int i = 0; i < 3; i++)
        ck_assert(budget_charge(&b, i));
    ck_assert(!budget_charge(&b, INT64_C(1) << 60));
    ck_assert_int_eq(b.used, 3);
    ck_assert_int_eq(budget_counting(&b, INT64_C(1) << 60), 3);
}

TEST(test_budget_of_none_charges_none)
{
    struct budget b;
    budget_init(&b, 0, 0, 0);
    ck_assert(!budget_charge(&b, 5));
    budget_init(&b, 0, WINDOW, 0);
    ck_assert(!budget_charge(&b, 5));
    ck_assert_int_eq(b.used, 0);
}

/* A restart leaves the window when it is as old as the window is long. */
TEST(test_budget_with_window_slides)
{
    struct budget b;
    budget_init(&b, 2, WINDOW, 0);
    ck_assert(budget_charge(&b, 0));
    ck_assert(budget_charge(&b, 400));
    ck_assert(!budget_charge(&b, 999));
    ck_assert(budget_charge(&b, 1000));
    ck_assert(!budget_charge(&b, 1399));
    ck_assert_int_eq(budget_counting(&b, 1399), 2);
    ck_assert(budget_charge(&b, 1400));
    ck_assert_int_eq(b.used, 4);
    ck_assert_int_eq(budget_counting(&b, 5000), 0);
}

/* Many times round the ring, against a plain list of what was charged. */
TEST_LOOP(test_budget_window_agrees_with_a_list, 0, 3)
{
    static int64_t at[5000];
    static const int maxima[] = {1, 7, BUDGET_WINDOW_MAX};
    int max = maxima[_i];
    struct budget b;
    budget_init(&b, max, WINDOW, 0);
    int n = 0;
    int64_t now = 0;
    unsigned dice = 12345;
    for (int i = 0; i < 5000; i++) {
        dice = dice * 1103515245u + 12345u;
        now += dice / 65536u % 40u;
        int counting = 0;
        for (int k = 0; k < n; k++)
            counting += now - at[k] < WINDOW;
        ck_assert_int_eq(budget_counting(&b, now), counting);
        bool fits = counting < max;
        ck_assert(budget_charge(&b, now) == fits);
        if (fits)
            at[n++] = now;
    }
    ck_assert_int_eq(b.used, n);
    ck_assert_int_gt(n, max);
}

TEST(test_budget_with_window_is_bounded)
{
    struct budget b;
    budget_init(&b, 1000000, WINDOW, 0);
    for (int i = 0; i < BUDGET_WINDOW_MAX; i++)
        ck_assert(budget_charge(&b, 0));
    ck_assert(!budget_charge(&b, 0));
}

TEST(test_budget_restored_counts_from_when_it_was_told)
{
    struct budget b;
    budget_init(&b, 2, WINDOW, 0);
    budget_restore(&b, 9, 2, 5000, 6000);
    ck_assert_int_eq(b.used, 9);
    ck_assert(!budget_charge(&b, 5999));
    budget_restore(&b, 8, 0, 5500, 6000); /* older news */
    ck_assert(!budget_charge(&b, 5999));
    ck_assert(budget_charge(&b, 6000));
    ck_assert_int_eq(b.used, 10);
    budget_init(&b, 3, 0, 0);
    budget_restore(&b, 2, 0, 0, 6000);
    ck_assert(budget_charge(&b, 0));
    ck_assert(!budget_charge(&b, 0));
    budget_init(&b, 3, 0, 0);
    budget_restore(&b, 50, 0, 0, 6000); /* more than there can be */
    ck_assert_int_eq(b.used, 3);
}

/* Found by the simulator: the newest round tells how many there were, but not
 * when; a member of it, or of the one before, does. */
TEST_LOOP(test_budget_restored_by_number_learns_the_times, 0, 2)
{
    struct budget b;
    budget_init(&b, 2, WINDOW, 0);
    budget_restore(&b, 2, 0, 6000, 6000);
    ck_assert_int_eq(budget_counting(&b, 6000), 0);
    if (_i == 0)
        budget_restore(&b, 2, 2, 5500, 6000);
    else
        budget_restore(&b, 1, 1, 5500, 6000);
    ck_assert_int_eq(b.used, 2);
    ck_assert(!budget_charge(&b, 6000));
    ck_assert_int_eq(budget_counting(&b, 5500 + WINDOW), _i);
    budget_restore(&b, 0, 0, 5000, 6000); /* it knows of too few */
    ck_assert_int_eq(budget_counting(&b, 6000), 2);
}

/* What a node lies is told to others, by messages that have a limit. */
TEST(test_budget_counts_stop_at_what_messages_can_say)
{
    struct budget b;
    budget_init(&b, 2, WINDOW, 0);
    budget_restore(&b, BUDGET_COUNT_MAX, 1, 0, 6000);
    ck_assert(budget_charge(&b, 0));
    ck_assert_int_eq(b.used, BUDGET_COUNT_MAX);
    ck_assert(!budget_charge(&b, 0)); /* the window counts on */
    ck_assert(budget_charge(&b, 2 * WINDOW));
    ck_assert_int_eq(b.used, BUDGET_COUNT_MAX);
    budget_init(&b, 2, WINDOW, 0);
    budget_restore(&b, INT32_MAX, 0, 0, 6000);
    ck_assert_int_eq(b.used, BUDGET_COUNT_MAX);
    budget_init(&b, 1, 0, 0);
    b.no_progress = BUDGET_COUNT_MAX;
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert_int_eq(b.no_progress, BUDGET_COUNT_MAX);
}

TEST(test_budget_crash_loop_is_k_failures_in_a_row_without_progress)
{
    struct budget b;
    budget_init(&b, 100, 0, 3);
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(!budget_round_over(&b, true, true)); /* got somewhere */
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(!budget_round_over(&b, false, false)); /* no failure */
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(budget_round_over(&b, true, false));
}

/* A server that takes over ends nothing by what it is told alone. */
TEST(test_budget_crash_loop_goes_on_where_it_was)
{
    struct budget b;
    budget_init(&b, 100, 0, 3);
    budget_restore_no_progress(&b, 1);
    budget_restore_no_progress(&b, 0);
    ck_assert(!budget_round_over(&b, true, false));
    ck_assert(budget_round_over(&b, true, false));
    budget_init(&b, 100, 0, 3);
    budget_restore_no_progress(&b, 1000);
    ck_assert_int_eq(b.no_progress, 2);
    budget_init(&b, 100, 0, 0);
    budget_restore_no_progress(&b, 1000);
    ck_assert_int_eq(b.no_progress, 0);
}

TEST(test_budget_crash_loop_is_off_unless_asked_for)
{
    struct budget b;
    budget_init(&b, 100, 0, 0);
    for (int i = 0; i < 1000; i++)
        ck_assert(!budget_round_over(&b, true, false));
}

SUITE("budget", "budget", .tags = "fast")
