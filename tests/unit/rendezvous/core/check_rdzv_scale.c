/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Rounds that grow, and stops that are graceful.
 */
#include <check.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* The first one at once; those of the next interval together. */
TEST(test_rdzv_late_joiners_are_taken_together)
{
    like.scale_ms = 5000;
    run_two(2, 6);
    join(2);
    ck_assert(told(0, "stop") && noted("joined"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_UP);
    both_ready(1);
    ck_assert_int_eq(placed[2].group_world, 3);
    later(2 * MONO_S, 3, 2);
    join(3);
    ck_assert(!told(0, "stop") && told(3, "waiting") && noted("spare"));
    ck_assert(last[3].waiting.what_for == MSG_FOR_GROWTH);
    ck_assert_int_eq(last[3].waiting.left_ms, 3000);
    later(2 * MONO_S, 4, 2);
    join(4);
    ck_assert(!told(0, "stop"));
    ck_assert_int_eq(last[4].waiting.left_ms, 1000);
    later(1 * MONO_S - 1, 5, 2);
    tick(0);
    ck_assert(!told(0, "stop"));
    ck_assert_int_eq(rdzv_deadline(rdzv), now_us + 1);
    now_us += 1;
    tick(0);
    ck_assert(told(0, "stop") && told(1, "stop") && told(2, "stop"));
    ready(0, 2);
    ready(1, 2);
    ready(2, 2);
    later(200 * MONO_MS, 5, 2);
    ck_assert_int_eq(placed[4].group_world, 5);
    later(5 * MONO_S, 5, 3); /* quiet: the next one is a first one */
    join(5);
    ck_assert(told(0, "stop"));
}

/* One that waits for others to come takes a lost node's place meanwhile. */
TEST(test_rdzv_late_joiner_replaces_a_lost_node_at_once)
{
    like.scale_ms = 5000;
    run_two(2, 6);
    join(2);
    both_ready(1);
    join(3);
    ck_assert(!told(0, "stop"));
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
    ready(0, 2);
    ready(2, 2);
    ck_assert_int_eq(placed[3].round, 3);
    ck_assert_int_eq(placed[3].group_rank, 1);
}

/* Found by reading: a newcomer that happened to come while the round was being
 * stopped had a place before a spare that had waited for one. */
TEST(test_rdzv_spare_goes_before_who_came_later)
{
    run_two(2, 2);
    join(2);
    ck_assert(noted("spare"));
    closed(1, true);
    join(3);
    ready(0, 1);
    ck_assert(told(2, "world") && !told(3, "world"));
    ck_assert_int_eq(placed[2].group_rank, 1);
    ck_assert_int_ge(last[3].waiting.what_for, MSG_FOR_A_PLACE);
}

/* Nobody has time any more once something failed or was lost. */
TEST(test_rdzv_graceful_stop_is_hurried_by_a_loss)
{
    run_two(2, 3);
    join(2);
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_UP);
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
}

/* Found by reading: a worker that died after it had been asked to leave, which
 * is not charged, left its peers to wait for it until their grace was over. */
TEST(test_rdzv_graceful_stop_is_hurried_by_a_failure)
{
    run_two(2, 3);
    join(2);
    now_us += 100 * MONO_MS;
    failed(1, 1, 9, 0);
    ck_assert(told(0, "stop") && !noted("failed"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
    failed(0, 1, 9, 0);
    ck_assert(!told(0, "stop")); /* once is enough */
    both_ready(1);
    ck_assert_int_eq(placed[2].round, 2);
    ck_assert_int_eq(placed[2].restarts, 0);
}

/* So does a node whose workers did not all end as those do that were asked:
 * by themselves, or by SIGTERM where they do not look for it. */
TEST_LOOP(test_rdzv_graceful_stop_is_hurried_by_who_did_not_leave_in_order,
          0,
          14)
{
    static const struct {
        struct msg_ready ready;
        bool hurries;
    } cases[] = {
        {{.round = 1}, false},
        {{.round = 1, .counts = "2 0 0 0", .ends = "0-1=-15 "}, false},
        {{.round = 1, .counts = "0 0 0 2", .ends = "0-1=143 "}, false},
        {{.round = 1, .counts = "0 0 0 1", .ends = "1=1 "}, true},
        {{.round = 1, .counts = "1 0 0 1", .ends = "0=-15 1=1 "}, true},
        {{.round = 1, .counts = "0 1 0 0", .ends = "0=-9 "}, true},
        {{.round = 1, .counts = "0 0 1 0"}, true}, /* the list is full */
    };
    run_two(2, 3);
    if (_i >= 7) /* the same of one that leaves by itself */
        leave(1, false);
    else
        join(2);
    struct msg m = {.kind = MSG_KIND_ready, .ready = cases[_i % 7].ready};
    say(1, &m);
    ck_assert(told(0, "stop") == cases[_i % 7].hurries);
    if (cases[_i % 7].hurries)
        ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
}

/* And one that is killed while it leaves. */
TEST_LOOP(test_rdzv_graceful_stop_is_hurried_by_the_death_of_who_leaves, 0, 2)
{
    run_two(1, 2);
    leave(1, false);
    if (_i == 1)
        ready(1, 1);
    closed(1, true);
    ck_assert(told(0, "stop") == (_i == 0));
    ready(0, 1);
    ck_assert_int_eq(placed[0].round, 2);
}

TEST(test_rdzv_stop_for_a_node_that_leaves_is_graceful)
{
    run_two(1, 2);
    leave(1, false);
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_DOWN);
    ck_assert(!told(1, "stop"));
}

HAND_SUITE("rdzv_scale")
