/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Two instances of a run at one server: nodes of a younger one than it has come
 * to it, and stop what they run. Which of two servers' instances gives way is
 * in check_rdzv_moved.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* A member of round 5 of another instance, which began just now. */
static struct msg younger(int who)
{
    struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 78);
    m.join.instance_ms = 0;
    m.join.group_rank = 0;
    return m;
}

/* Found by the simulator (SEED=251660 then): a node that was told to stop a
 * round said ready of the one before, late. That is no answer. */
TEST(test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop)
{
    run_two(2, 2);
    struct msg m = younger(2);
    say(2, &m);
    ck_assert(told(2, "stop"));
    ready(2, 4);
    ck_assert(!told(2, "waiting"));
    ready(2, 5);
    ck_assert_int_ge(last[2].waiting.what_for, MSG_FOR_A_PLACE);
}

/* Found by the simulator (SEED=993330): nor is it one of a node that leaves. */
TEST(test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round)
{
    run_two(1, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    leave(0, false);
    ready(1, 2);
    ready(0, 1);
    ck_assert(!told(1, "world"));
    ready(0, 2);
    ck_assert(told(1, "world"));
}

/* The majority of an older instance may be elsewhere: no word of ours ends it.
 */
TEST(test_rdzv_node_of_an_older_instance_is_not_answered)
{
    run_two(2, 2);
    struct msg m = younger(2);
    m.join.instance_ms = 60000;
    say(2, &m);
    ck_assert_str_eq(said, "2:drop ");
    ck_assert(noted("refused"));
}

/* Found by the simulator (NEWCOMERS=1 SEED=1916983): a node of an instance that
 * nobody else here knew said ready of its round 2 twice. The second one came
 * when it was in our round 2, and was taken for that one's. */
TEST(test_rdzv_stale_round_has_no_number_of_a_round_to_come)
{
    run_two(2, 2);
    leave(1, false);
    both_ready(1);
    struct msg m = younger(2);
    say(2, &m);
    ck_assert(told(2, "stop"));
    ready(2, 5);
    ck_assert(told(2, "world"));
    ck_assert_int_eq(placed[2].round, 6);
    ready(2, 5);
    ck_assert(noted("stale") && !told(0, "stop"));
}

/* Nobody's claim brings our numbers near to those that no server believes. */
TEST(test_rdzv_stale_round_of_a_liar_is_not_left_out)
{
    run_two(2, 2);
    leave(1, false);
    both_ready(1);
    struct msg m = younger(2);
    m.join.round = 998999999;
    say(2, &m);
    ck_assert(told(2, "stop"));
    ready(2, m.join.round);
    ck_assert_int_eq(placed[2].round, 2);
}

/* Its round has the number of ours: what it says of its own workers' progress
 * breaks no crash loop here. */
TEST(test_rdzv_progress_in_another_instance_is_none_of_this_one)
{
    like.max_restarts = 100;
    like.crash_loop = 1;
    run_two(2, 2);
    struct msg m = younger(2);
    m.join.round = 1;
    say(2, &m);
    ck_assert(told(2, "stop"));
    m = (struct msg){.kind = MSG_KIND_ready,
                     .ready = {.round = 1, .progress = 1}};
    say(2, &m);
    fail_round(1, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, ddp_code_exit(DDP_E_CRASHLOOP));
}

HAND_SUITE("rdzv_instances")
