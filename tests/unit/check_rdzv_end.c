/* links: tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * Done, and the end of a run.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rdzv_hand.h"

START_TEST(test_rdzv_run_ends_when_all_are_done)
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
END_TEST

/* One that says nothing keeps the others for half a second, one that is gone or
 * away does not; a single node is told once. */
START_TEST(test_rdzv_end_is_final_without_those_that_cannot_know)
{
    run_two(2, 2);
    done(0, 1);
    done(1, 1);
    bye(0);
    if (_i == 0) {
        pass(499 * MONO_MS);
        ck_assert_int_eq(last[0].end.hold, 1);
        now_us += MONO_MS;
        tick(0);
    } else {
        closed(1, _i == 1);
    }
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
}
END_TEST

START_TEST(test_rdzv_end_of_a_single_node_is_final_at_once)
{
    limits_of(1, 1);
    join(0);
    done(0, 1);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.hold, 0);
    bye(0);
    ck_assert(told(0, "drop"));
}
END_TEST

/* The server that said the end is no more: whoever of that instance is here
 * already, or comes, is told; newcomers to the run's name are not concerned. */
START_TEST(test_rdzv_end_of_a_server_that_is_no_more_holds)
{
    struct msg m = make_rejoin(4, 5, MSG_STATE_DONE, true);
    m.join.ended = 1;
    m.join.end_status = 3;
    if (_i == 0)
        rejoin(0, 0, 5, MSG_STATE_DONE, true);
    else
        run_two(2, 2);
    say(9, &m);
    ck_assert(told(9, "end") && told(9, "drop"));
    ck_assert_int_eq(last[9].end.status, 3);
    ck_assert(_i == 0 ? told(0, "end") : !told(0, "end") && !told(1, "end"));
    if (_i == 0) {
        ck_assert_int_eq(last[0].end.status, 3);
        return;
    }
    m = make_rejoin(3, 5, MSG_STATE_DONE, true);
    say(8, &m);
    ck_assert(told(8, "end") && !told(8, "lease"));
    ck_assert_int_eq(last[8].end.status, 3);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
}
END_TEST

START_TEST(test_rdzv_done_node_that_is_gone_counts)
{
    run_two(2, 2);
    done(0, 1);
    closed(0, true);
    done(1, 1);
    ck_assert(told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 0);
}
END_TEST

START_TEST(test_rdzv_done_node_runs_again_with_the_next_round)
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
END_TEST

START_TEST(test_rdzv_leave_all_ends_the_run_for_all)
{
    run_two(2, 2);
    leave(0, true);
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert_int_eq(last[1].end.status, 128 + 15);
}
END_TEST

/* A node that did not hear of the end hears of it when it comes back, though a
 * new run of the same name has begun. */
START_TEST(test_rdzv_straggler_gets_the_result_of_its_own_instance)
{
    run_two(2, 2);
    struct msg m = make_rejoin(1, 1, MSG_STATE_DONE, true);
    msg_set(m.join.instance, last[1].world.instance);
    done(0, 1);
    closed(1, true); /* as by a lost connection's FIN from another time */
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    ready(0, 1);
    leave(0, true);
    ck_assert(told(0, "end"));
    join(5);
    ck_assert(told(5, "waiting"));
    say(8, &m);
    ck_assert(told(8, "end") && told(8, "drop"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    pass(601 * MONO_S);
    say(9, &m); /* after ten minutes it is forgotten */
    ck_assert(!told(9, "end"));
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_run_ends_when_all_are_done, 1},
        {test_rdzv_end_is_final_without_those_that_cannot_know, 3},
        {test_rdzv_end_of_a_single_node_is_final_at_once, 1},
        {test_rdzv_end_of_a_server_that_is_no_more_holds, 2},
        {test_rdzv_done_node_that_is_gone_counts, 1},
        {test_rdzv_done_node_runs_again_with_the_next_round, 1},
        {test_rdzv_leave_all_ends_the_run_for_all, 1},
        {test_rdzv_straggler_gets_the_result_of_its_own_instance, 1},
    };
    return hand_main("rdzv_end", tests, HAND_LEN(tests));
}
