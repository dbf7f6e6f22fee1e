/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Done, and the end of a run.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

TEST(test_rdzv_run_ends_when_all_are_done)
{
    run_two(2, 2);
    done(0, 1);
    ck_assert(!told(0, "end"));
    done(1, 1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.status, 0);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
    /* Not final before both know. */
    ck_assert_int_eq(last[0].end.hold, 1);
    bye(0);
    ck_assert_str_eq(said, "");
    bye(1);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
    bye(0);
    ck_assert(told(0, "drop"));
    closed(1, true);
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
}

/* One that is away is not waited for: half of the two know. One that is here
 * and says nothing is, for a while. */
TEST_LOOP(test_rdzv_end_is_final_without_those_that_cannot_know, 0, 2)
{
    run_two(2, 2);
    done(0, 1);
    done(1, 1);
    bye(0);
    if (_i == 1)
        closed(1, false);
    ck_assert_int_eq(last[0].end.hold, _i == 0);
    for (int i = 1; i < 12; i++) {
        now_us += 100 * MONO_MS;
        beat_of(0, i, i - 1, 1);
        tick(0);
    }
    pass(500 * MONO_MS);
    ck_assert_int_eq(last[0].end.hold, 0);
}

TEST(test_rdzv_end_of_a_single_node_is_final_once_it_knows)
{
    limits_of(1, 1);
    join(0);
    done(0, 1);
    ck_assert_int_eq(last[0].end.hold, 1);
    bye(0);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
    bye(0);
    ck_assert(told(0, "drop"));
}

TEST(test_rdzv_done_node_that_is_gone_counts)
{
    run_two(2, 2);
    done(0, 1);
    closed(0, true);
    done(1, 1);
    ck_assert(told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 0);
}

TEST(test_rdzv_done_node_runs_again_with_the_next_round)
{
    run_two(2, 2);
    done(0, 1);
    failed(1, 1, 3, 0);
    ck_assert(told(0, "stop"));
    both_ready(1);
    ck_assert(told(0, "world"));
    done(1, 2);
    ck_assert(!told(1, "end"));
}

TEST(test_rdzv_leave_all_ends_the_run_for_all)
{
    run_two(2, 2);
    leave(0, true);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 128 + 15);
}

/* -- strangers ------------------------------------------------------------- */

static char secret[33]; /* all digits of the instance that nodes 0, 1 run */
static int leaks;

/* What anybody else is sent must not tell them. */
static void look_for_secret(int conn, const struct msg *m)
{
    static char json[MSG_JSON_MAX];
    int len = msg_encode(m, json, sizeof(json) - 1);
    ck_assert_int_gt(len, 0);
    json[len] = '\0';
    leaks += conn > 1 && strstr(json, secret) != NULL;
}

/* Nodes 0 and 1 run, node 2 is a spare. */
static void run_with_spare(void)
{
    run_two(1, 2);
    msg_set(secret, placed[1].instance);
    ck_assert_uint_eq(strlen(secret), 32);
    leaks = 0;
    on_said = look_for_secret;
    join(2);
    ck_assert_int_ge(last[2].waiting.what_for, MSG_FOR_A_PLACE);
    ck_assert_uint_eq(strlen(last[2].waiting.instance), MSG_INSTANCE_NAME);
    ck_assert(strncmp(secret, last[2].waiting.instance, MSG_INSTANCE_NAME) ==
              0);
}

/* Found by an outsider: a spare was told all that it takes to say that the run
 * had ended, which was believed, and all launchers ended with its status. */
TEST_LOOP(test_rdzv_end_is_not_believed_of_a_stranger, 0, 4)
{
    run_with_spare();
    struct msg m = make_join(7);
    m.join.round = 1;
    m.join.ended = 1;
    if (_i < 3)
        msg_set(m.join.instance, last[2].waiting.instance);
    if (_i == 1) /* a guess */
        memset(m.join.instance + 16, '0', 16);
    if (_i == 2) /* says to have been in the round */
        m.join.state = MSG_STATE_DONE;
    say(7, &m);
    ck_assert(!told(0, "end") && !told(1, "end") && !told(2, "end"));
    ck_assert(!noted("ended") || _i == 1); /* that of another run, kept apart */
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    closed(1, true); /* the run goes on as any */
    ready(0, 1);
    ck_assert(told(0, "world") && told(2, "world"));
}

/* Found by an outsider: a spare that was stopped by Ctrl-C ended it for all. */
TEST(test_rdzv_leave_all_of_a_spare_ends_nothing)
{
    run_with_spare();
    leave(2, true);
    ck_assert(!told(0, "end") && !told(1, "end"));
    ck_assert(told(2, "drop") || rdzv_nodes(rdzv) == 2);
    leave(0, true);
    ck_assert(told(0, "end") && told(1, "end"));
}

/* Nobody has a part in a run that never began. */
TEST(test_rdzv_leave_all_of_a_newcomer_ends_nothing)
{
    limits_of(3, 3);
    join(0);
    join(1);
    leave(1, true);
    ck_assert(!told(0, "end"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
}

/* A spare is told the end, comes back, and is told it again. */
TEST(test_rdzv_nobody_but_members_is_told_all_digits)
{
    run_with_spare();
    join(3);
    closed(2, false);
    struct msg m = make_join(2);
    msg_set(m.join.instance, last[2].waiting.instance);
    m.join.round = 1;
    say(4, &m);
    done(0, 1);
    done(1, 1);
    ck_assert(told(3, "end") && told(4, "end"));
    bye(0);
    bye(1);
    say(5, &m);
    ck_assert(told(5, "end"));
    ck_assert_int_eq(leaks, 0);
}

/* A node that did not hear of the end hears of it when it comes back, though a
 * new run of the same name has begun. */
TEST(test_rdzv_straggler_gets_the_result_of_its_own_instance)
{
    run_two(2, 2);
    struct msg m = make_rejoin(1, 1, MSG_STATE_DONE);
    msg_set(m.join.instance, placed[1].instance);
    done(0, 1);
    closed(1, true); /* as by a lost connection's FIN from another time */
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    ready(0, 1);
    leave(0, true);
    ck_assert(told(0, "end"));
    bye(0);
    join(5);
    ck_assert(told(5, "waiting"));
    say(8, &m);
    ck_assert(told(8, "end") && told(8, "drop"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    pass(601 * MONO_S);
    say(9, &m); /* after ten minutes it is forgotten */
    ck_assert(!told(9, "end"));
}

HAND_SUITE("rdzv_end")
