/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * The budget of restarts with its window, and crash loops.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* What followed from it, on all nodes: without the one that failed first, and
 * not what a hostile node makes of it. */
TEST(test_rdzv_end_sums_up_how_workers_ended)
{
    struct msg m = {.kind = MSG_KIND_ready};
    like.max_restarts = 0;
    run_two(2, 2);
    failed(1, 1, 9, 0);
    m.ready = (struct msg_ready){.round = 1, .counts = "3 409600000 0 1"};
    say(1, &m);
    m.ready = (struct msg_ready){.round = 1, .counts = "1 5 0 0"};
    say(1, &m); /* said twice: once is enough */
    say(0, &m);
    ck_assert(told(0, "end"));
    ck_assert_str_eq(last[0].end.counts, "4 409600000 0 0");
}

TEST(test_rdzv_budget_comes_back_with_its_window)
{
    like.window_ms = 10000;
    run_two(2, 2);
    fail_round(1, false);
    ck_assert_int_eq(placed[0].restarts, 1);
    ck_assert_int_eq(placed[0].recent, 1);
    for (int i = 2; i < 6; i++) {
        later(10 * MONO_S, 2, i);
        fail_round(i, false);
        ck_assert(told(0, "world"));
        ck_assert_int_eq(placed[0].restarts, i);
        ck_assert_int_eq(placed[0].recent, 1);
    }
    later(10 * MONO_S - 1, 2, 6);
    fail_round(6, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, 9);
    ck_assert_int_eq(last[0].end.restarts, 5);
    ck_assert_str_eq(last[0].end.text,
                     "rank 1 on n1 failed (exit code 9); restarts used in "
                     "the last 10 s: 1 of 1");
}

/* The next server knows how many counted when a round began, and takes them
 * for charged then. */
TEST_LOOP(test_rdzv_window_is_told_to_the_next_server, 0, 2)
{
    like.window_ms = 10000;
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING);
        m.join.restarts = 7;
        m.join.recent = 1;
        m.join.recent_ms = 4000;
        rejoin_voted(i, &m, "01");
    }
    later(6000 * MONO_MS - (_i == 0 ? 0 : 1), 2, 5);
    fail_round(5, false);
    if (_i == 0) {
        ck_assert(told(0, "world"));
        ck_assert_int_eq(placed[0].restarts, 8);
    } else {
        ck_assert(told(0, "end"));
        ck_assert_int_eq(last[0].end.restarts, 7);
    }
}

/* A node lies about restarts, or about rounds without progress: what the server
 * tells the others must still be a message (rdzv_hand decodes each). */
TEST_LOOP(test_rdzv_counts_from_a_lie_stay_within_the_messages, 0, 2)
{
    like.max_restarts = 64;
    like.window_ms = 10000;
    like.node_strikes = _i == 0 ? 0 : 1000000;
    like.cooldown_ms = 10000;
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING);
        m.join.restarts = 1000000;
        m.join.no_progress = 1000000;
        m.join.strikes = i == 1 ? 999999 : 0;
        rejoin_voted(i, &m, "01");
    }
    for (int round = 5; round < 8; round++) {
        fail_round(round, false);
        ck_assert(told(0, "world") && told(1, "world"));
        ck_assert_int_eq(placed[0].restarts, 1000000);
    }
}

TEST(test_rdzv_crash_loop_ends_the_run_early)
{
    like.max_restarts = 100;
    like.crash_loop = 3;
    run_two(2, 2);
    fail_round(1, false);
    fail_round(2, false);
    fail_round(3, true); /* one worker got on: counted anew */
    fail_round(4, false);
    later(60 * MONO_S, 2, 5);
    fail_round(5, false); /* long enough not to be one */
    fail_round(6, false);
    fail_round(7, false);
    ck_assert(told(0, "world"));
    fail_round(8, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, ddp_code_exit(DDP_E_CRASHLOOP));
    ck_assert_int_eq(last[0].end.crash_loop, 3);
    ck_assert_int_eq(last[0].end.code, 9);
    ck_assert_str_eq(last[0].end.text,
                     "rank 1 on n1 failed (exit code 9); crash loop, 3 rounds "
                     "in a row without progress; restarts used: 7 of 100");
}

TEST(test_rdzv_crash_loop_is_off_by_default)
{
    like.max_restarts = 100;
    run_two(2, 2);
    for (int i = 1; i <= 100; i++) {
        fail_round(i, false);
        ck_assert(told(0, "world"));
    }
    fail_round(101, false);
    ck_assert_int_eq(last[0].end.status, 9);
}

/* With it goes the age of the round: one that has run for an hour when it fails
 * soon after the daemon was started again is none of a crash loop. */
TEST_LOOP(test_rdzv_crash_loop_is_told_to_the_next_server, 0, 2)
{
    like.max_restarts = 100;
    like.crash_loop = 3;
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING);
        m.join.restarts = 7;
        m.join.no_progress = 2;
        m.join.recent_ms = _i == 0 ? 1000 : 3600000;
        rejoin_voted(i, &m, "01");
    }
    fail_round(5, false);
    ck_assert(told(0, _i == 0 ? "end" : "world"));
    if (_i == 0)
        ck_assert_int_eq(last[0].end.crash_loop, 3);
    else
        ck_assert_int_eq(placed[0].no_progress, 0);
}

/* Or so many nodes that come one by one would each restart all. */
TEST(test_rdzv_scale_interval_is_told_to_the_next_server)
{
    like.scale_ms = 5000;
    limits_of(2, 4);
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING);
        m.join.recent_ms = i == 0 ? 2000 : 0;
        if (i == 1)
            join(3); /* in between, and first of all */
        rejoin_voted(i, &m, "01");
    }
    ck_assert(!told(0, "stop"));
    join(2);
    ck_assert(!told(0, "stop") && last[2].waiting.what_for == MSG_FOR_GROWTH);
    ck_assert_int_eq(last[2].waiting.left_ms, 5000); /* as the youngest tells */
    later(5 * MONO_S, 4, 5);
    tick(0);
    ck_assert(last[0].kind == MSG_KIND_stop);
    ready(0, 5);
    ready(1, 5);
    ck_assert_int_eq(placed[3].group_world, 4);
}

/* Found by the simulator (NEWCOMERS=1 SEED=513391): a quarantined node that
 * came while the next round gathered told the next server of the last charge,
 * and a member told it of the failure that this was for. A node that has no
 * place is told of no charges any more. */
TEST_LOOP(test_rdzv_charge_is_not_told_as_of_before_its_round, 0, 2)
{
    like.node_strikes = 1;
    like.cooldown_ms = 10000;
    like.window_ms = _i == 0 ? 0 : 60000;
    run_two(2, 2);
    failed(1, 1, 9, 0);
    ready(1, 1);
    closed(1, false); /* it is waited for */
    ready(0, 1);
    ck_assert(noted("kept") && !told(0, "world"));
    struct msg m = make_join(2);
    m.join.cooldown_left_ms = 5000;
    say(2, &m);
    ck_assert_int_ge(last[2].waiting.what_for, MSG_FOR_A_PLACE);
    m = holds(1, &placed[1], MSG_STATE_READY);
    say(11, &m);
    ck_assert_int_eq(placed[0].round, 2);
    ck_assert_int_eq(placed[0].restarts, 1);
}

HAND_SUITE("rdzv_budget")
