/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Failures: which one is the root cause, what is charged and what is given
 * back.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* -- failures -------------------------------------------------------------- */

TEST(test_rdzv_failure_stops_all_and_is_charged_once)
{
    run_two(2, 2);
    failed(0, 1, 3, 0);
    ck_assert(told(0, "stop") && told(1, "stop"));
    failed(1, 1, 4, 0);
    ck_assert(!told(0, "stop"));
    ready(0, 1);
    ck_assert(!told(0, "world"));
    ready(1, 1);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(placed[0].round, 2);
    ck_assert_int_eq(placed[0].restarts, 1);
    ck_assert_int_eq(placed[1].restarts, 1);
}

/* The one that was earlier, not the one whose message was. */
TEST(test_rdzv_root_cause_is_the_oldest_failure)
{
    like.max_restarts = 0;
    run_two(2, 2);
    now_us += 10 * MONO_S;
    failed(0, 1, 3, 1000);
    failed(1, 1, 4, 5000);
    both_ready(1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 4);
    ck_assert_str_eq(last[0].end.node, "n1");
    ck_assert_int_eq(last[0].end.age_us, 5000);
}

/* The other nodes hear whether their workers wait for one that is dead, also
 * when they come back; and a failure of the round before says nothing. */
TEST_LOOP(test_rdzv_stop_says_whether_a_worker_died, 0, 3)
{
    static const struct msg_failed how[] = {
        {.signal = 9}, {.code = 70, .how = MSG_FAILED_HUNG}, {.code = 3}};
    static const int64_t says[] = {MSG_AFTER_DEATH, MSG_AFTER_DEATH,
                                   MSG_AT_ONCE};
    struct msg m = {.kind = MSG_KIND_failed, .failed = how[_i]};
    m.failed.round = m.failed.rank = 1;
    run_two(2, 2);
    say(1, &m);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, says[_i]);
    closed(0, false);
    m = holds(0, &placed[0], MSG_STATE_STOPPED);
    say(0, &m);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, says[_i]);
    both_ready(1);
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.graceful, MSG_AT_ONCE);
}

TEST(test_rdzv_spent_budget_ends_the_run)
{
    run_two(2, 2);
    failed(0, 1, 3, 0);
    both_ready(1);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 2, .rank = 1, .signal = 11}};
    say(1, &m);
    both_ready(2);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 128 + 11);
    ck_assert_int_eq(last[0].end.restarts, 1);
}

/* Found by fuzzing: an age that grew beyond what messages.def allows made an
 * end that every agent refuses. */
TEST(test_rdzv_age_in_the_end_stays_within_its_bounds)
{
    like.max_restarts = 0;
    join(0);
    join(1);
    failed(0, 1, 3, 86400000000000);
    now_us += 10 * MONO_MS;
    ready(0, 1);
    ready(1, 1);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.age_us, 86400000000000);
}

TEST(test_rdzv_permanent_failure_is_not_tried_again)
{
    run_two(2, 2);
    struct msg m = {
        .kind = MSG_KIND_failed,
        .failed = {.round = 1, .code = 127, .how = MSG_FAILED_FOR_GOOD}};
    say(0, &m);
    both_ready(1);
    ck_assert_int_eq(last[0].end.status, 127);
    ck_assert_int_eq(last[0].end.restarts, 0);
}

TEST(test_rdzv_failure_of_another_round_is_stale)
{
    run_two(2, 2);
    failed(0, 7, 3, 0);
    ck_assert(noted("stale") && !told(1, "stop"));
}

/* A newcomer's round_over is no fault; what fails then is its consequence,
 * unless its age shows that it came before. */
TEST_LOOP(test_rdzv_failure_after_the_round_was_over_is_not_charged, 0, 2)
{
    run_two(2, 3);
    join(2);
    ck_assert(told(0, "stop"));
    now_us += 100 * MONO_MS;
    failed(0, 1, 3, _i == 0 ? 50 * MONO_MS : 150 * MONO_MS);
    both_ready(1);
    ck_assert_int_eq(placed[2].round, 2);
    ck_assert_int_eq(placed[2].restarts, _i);
}

TEST(test_rdzv_failure_is_given_back_when_a_node_is_lost)
{
    limits_of(1, 2);
    like.max_restarts = 0;
    join(0);
    join(1);
    failed(0, 1, 3, 0);
    ready(0, 1);
    closed(1, true);
    ck_assert(noted("refund") && told(0, "world"));
    ck_assert_int_eq(placed[0].restarts, 0);
}

/* -- preemption ------------------------------------------------------------ */

/* The notice comes to a node's workers too, perhaps earlier: the failure is
 * given back when the node says that it goes, also where it was ready. */
TEST_LOOP(test_rdzv_failure_on_a_node_that_leaves_is_given_back, 0, 3)
{
    limits_of(1, 2);
    like.max_restarts = 0;
    join(0);
    join(1);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .rank = 1, .signal = 15}};
    say(1, &m);
    if (_i > 0)
        ready(1, 1);
    if (_i == 2)
        closed(1, true); /* killed outright */
    else
        leave(1, false);
    ready(0, 1);
    if (_i == 0)
        ready(1, 1);
    ck_assert(noted("refund") || told(0, "world"));
    ck_assert_int_eq(placed[0].round, 2);
    ck_assert_int_eq(placed[0].restarts, 0);
    ck_assert_int_eq(placed[0].group_world, 1);
}

/* A peer of a killed process may be heard of first. Its sentence does not take
 * that for the cause, and the cause is told once it is known. */
TEST(test_rdzv_lost_peer_is_told_as_a_consequence)
{
    run_two(2, 2);
    failed(1, 1, ddp_code_exit(DDP_E_PEER), 0);
    ck_assert(told(0, "stop") && told(1, "stop"));
    ck_assert_str_eq(last[0].stop.text,
                     "rank 1 on n1 lost a peer (exit code 77); which one, and "
                     "why, is not known yet");
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .signal = 9, .age_us = 100}};
    say(0, &m);
    ck_assert(told(0, "stop") && told(1, "stop") && !noted("failed"));
    ck_assert_str_eq(last[1].stop.text,
                     "rank 0 on n0 was killed by signal 9 (SIGKILL)");
    failed(1, 1, 3, 1000); /* no better one: nothing more is told */
    ck_assert(!told(0, "stop"));
    both_ready(1);
    ck_assert_int_eq(placed[0].restarts, 1);
}

/* Node `who` tells of its two workers that they are at `step` and one more. */
static void at_step(int who, int64_t seq, int64_t step, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = seq,
                             .heard = seq - 1,
                             .round = round,
                             .steps = step + 1,
                             .ahead = 1}};
    say(who, &m);
}

/* A script with a snapshot for each node, and one node that has none: each
 * launcher hears so, with the round and with the run. */
TEST(test_rdzv_nodes_at_different_steps_are_named)
{
    const char apart[] = "ranks 0-1 on n0 were at step 30 when ranks 2-3 on n1 "
                         "were at step 1: a node that does not find its "
                         "snapshot begins anew";
    char why[300];
    like.nproc = 2;
    like.max_restarts = 1;
    run_two(2, 2);
    at_step(0, 1, 30, 1);
    now_us += 100 * MONO_MS;
    at_step(1, 1, 0, 1);
    now_us += 100 * MONO_MS;
    at_step(0, 2, 35, 1); /* by now the other one may be further, too */
    failed(1, 1, 3, 0);
    ck_assert(told(0, "stop") && told(1, "stop"));
    (void)snprintf(why, sizeof(why), "rank 1 on n1 ended with exit code 3; %s",
                   apart);
    ck_assert_str_eq(last[0].stop.text, why);
    ck_assert_str_eq(last[1].stop.text, why);
    both_ready(1);
    at_step(0, 3, 31, 2);
    at_step(1, 2, 31, 2);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 2, .code = 3, .text = "no luck"}};
    say(1, &m);
    ck_assert_str_eq(last[0].stop.text, "rank 0 on n1 ended with exit code 3");
    both_ready(2);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_str_eq(last[0].end.error, "no luck");
}

TEST(test_rdzv_end_names_nodes_at_different_steps)
{
    like.nproc = 2;
    like.max_restarts = 0;
    run_two(2, 2);
    at_step(0, 1, 30, 1);
    at_step(1, 1, 0, 1);
    struct msg m = {.kind = MSG_KIND_failed,
                    .failed = {.round = 1, .code = 3, .text = "no luck"}};
    say(1, &m);
    both_ready(1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_str_eq(last[0].end.error,
                     "ranks 0-1 on n0 were at step 30 when ranks 2-3 on n1 "
                     "were at step 1: a node that does not find its snapshot "
                     "begins anew; no luck");
    ck_assert_str_eq(last[1].end.error, last[0].end.error);
}

/* Nodes that go on together: those which are one step apart; one that was heard
 * of later, or was not heard of since; and steps that count anew in each term.
 */
TEST_LOOP(test_rdzv_nodes_that_may_be_at_one_step_are_not_named, 0, 4)
{
    static const struct {
        int who;
        int64_t step;
    } told_of[][4] = {
        {{0, 30}, {1, 28}, {0, 30}, {1, 28}},
        {{1, 5}, {0, 30}, {1, 29}, {0, 50}},
        {{1, 5}, {0, 30}, {0, 30}, {0, 30}},
        {{0, 95}, {1, 95}, {0, 99}, {1, 2}},
    };
    like.nproc = 2;
    run_two(2, 2);
    for (int i = 0; i < 4; i++) {
        now_us += 100 * MONO_MS;
        at_step(told_of[_i][i].who, i + 1, told_of[_i][i].step, 1);
    }
    failed(1, 1, 3, 0);
    ck_assert_str_eq(last[0].stop.text, "rank 1 on n1 ended with exit code 3");
}

HAND_SUITE("rdzv_failure")
