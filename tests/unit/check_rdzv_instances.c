/* links: tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * Two instances of a run: newcomers' one, which a server without memory let
 * begin, and the older one, whose members come back.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rdzv_hand.h"

/* One that was in round 5, and is unknown here, with that group rank. */
static void member_joins(int who, int group_rank)
{
    struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING, true);
    m.join.group_rank = group_rank;
    say(who, &m);
}

/* Newcomers that came first run an instance of their own: it gives way to the
 * one whose workers run, restarts that it used and all. */
START_TEST(test_rdzv_newcomers_instance_gives_way_to_a_running_one)
{
    run_two(2, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    ck_assert_int_eq(last[0].world.restarts, 1);
    member_joins(2, 0);
    ck_assert(noted("rebuilt"));
    ck_assert(told(0, "stop") && told(1, "stop") && !told(2, "stop"));
    member_joins(3, 1);
    ck_assert(!told(2, "stop") && !told(3, "stop"));
    both_ready(2);
    ck_assert_int_eq(last[0].waiting.spare, 1);
    ck_assert_int_eq(last[1].waiting.round, 5);
    failed(2, 5, 1, 0);
    ready(2, 5);
    ready(3, 5);
    ck_assert_int_eq(last[2].world.round, 6);
    ck_assert_int_eq(last[2].world.restarts, 1);
    ck_assert_str_eq(last[2].world.instance,
                     make_rejoin(0, 5, 1, 1).join.instance);
}
END_TEST

/* Found by the simulator (SEED=251660 then): a node that was told to stop round
 * 2 of such newcomers said ready of round 1, late. That is no answer. */
START_TEST(test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop)
{
    run_two(2, 2);
    failed(0, 1, 1, 0);
    both_ready(1);
    member_joins(2, 0);
    ready(0, 1);
    ck_assert(!told(0, "waiting"));
    ready(0, 2);
    ck_assert_int_eq(last[0].waiting.spare, 1);
}
END_TEST

/* Found by the simulator (SEED=993330): nor is it one of a node that leaves. */
START_TEST(test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round)
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
END_TEST

/* Not to one that may have been given up, nor when no lease of a server before
 * can be out any more, nor to a younger one, whose nodes are newcomers. */
START_TEST(test_rdzv_instance_gives_way_to_no_other)
{
    if (_i == 2) {
        limits_of(2, 2);
        rejoin(0, 0, 5, MSG_STATE_RUNNING, true);
    } else {
        run_two(2, 2);
    }
    for (int i = 1; _i == 1 && i < 80; i++) { /* 36 s, not 30 */
        now_us += HEARTBEAT / 2;
        beat_of(0, i, i - 1, 1);
        beat_of(1, i, i - 1, 1);
    }
    struct msg m = make_rejoin(2, 5, MSG_STATE_RUNNING, _i != 0);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", 78);
    say(2, &m);
    ck_assert(told(2, _i == 2 ? "stop" : "refused") && !told(0, "stop"));
}
END_TEST

/* A member of instance `instance`, which began so long ago, at group rank 0. */
static struct msg older(int who, int instance, int64_t age_ms)
{
    struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING, true);
    (void)snprintf(m.join.instance, sizeof(m.join.instance), "%032d", instance);
    m.join.instance_ms = age_ms;
    m.join.group_rank = 0;
    return m;
}

/* A daemon that died between had known the newcomers' instance alone: the next
 * one has it from them, and still believes the older one. */
START_TEST(test_rdzv_older_instance_wins_though_it_comes_to_the_next_server)
{
    struct msg m = older(0, 78, 1000);
    say(0, &m);
    ck_assert(noted("rebuilt"));
    m = older(2, 77, 60000);
    say(2, &m);
    ck_assert(noted("rebuilt") && told(0, "stop") && !told(2, "stop"));
    m = older(1, 78, 1000); /* of the newcomers: it comes too late */
    m.join.group_rank = 1;
    say(1, &m);
    ck_assert(told(1, "stop") && !told(1, "refused"));
    ready(1, 5);
    ck_assert_int_eq(last[1].waiting.spare, 1);
    ck_assert(msg_same_instance(last[1].waiting.instance,
                                older(2, 77, 0).join.instance));
    ck_assert_int_ge(last[1].waiting.instance_ms, 60000);
}
END_TEST

/* What its workers do matters not, as long as no lease was ever over. */
START_TEST(test_rdzv_any_sure_member_speaks_for_the_older_instance)
{
    static const enum msg_state states[] = {
        MSG_STATE_RUNNING, MSG_STATE_STOPPED, MSG_STATE_READY, MSG_STATE_DONE};
    run_two(2, 2);
    struct msg m = older(2, 77, 60000);
    m.join.state = (int64_t)states[_i];
    say(2, &m);
    ck_assert(noted("rebuilt") && told(0, "stop") && told(1, "stop"));
}
END_TEST

/* Found by the simulator (SEED=520685 then): a spare of the older instance came
 * to newcomers that had just failed. Their end is not that of its own, which it
 * would tell the next server of. */
START_TEST(test_rdzv_end_says_of_which_instance_it_is)
{
    like.max_restarts = 0;
    run_two(2, 2);
    char theirs[33];
    msg_set(theirs, last[0].world.instance);
    failed(0, 1, 6, 0);
    rejoin(2, 2, 5, MSG_STATE_NONE, false);
    both_ready(1);
    ck_assert(told(2, "end"));
    ck_assert(msg_same_instance(last[2].end.instance, theirs));
    ck_assert_int_eq(last[2].end.round, 1);
    new_server();
    member_joins(3, 0);
    struct msg m = make_rejoin(2, 1, MSG_STATE_NONE, false);
    msg_set(m.join.instance, theirs);
    m.join.ended = 1;
    m.join.end_status = 6;
    say(2, &m);
    ck_assert(told(2, "end") && !told(3, "end"));
    ck_assert(msg_same_instance(last[2].end.instance, theirs));
    member_joins(4, 1);
    done(3, 5);
    done(4, 5);
    ck_assert_int_eq(last[3].end.status, 0);
}
END_TEST

/* Found by the simulator (NEWCOMERS=1 SEED=529420): restarts and failures in a
 * row of the older instance were believed of the newcomers' one. */
START_TEST(test_rdzv_charges_of_another_instance_are_not_believed)
{
    like.max_restarts = 3;
    like.node_strikes = 2;
    like.cooldown_ms = 10000;
    for (int i = 0; i < 2; i++) {
        struct msg m = older(i, 78, 1000);
        m.join.group_rank = i;
        say(i, &m);
    }
    struct msg m = make_rejoin(2, 9, MSG_STATE_NONE, false);
    m.join.restarts = 3;
    m.join.struck = 1;
    say(2, &m);
    ck_assert_int_eq(last[2].waiting.spare, 1);
    ck_assert_int_eq(last[2].waiting.restarts, 0);
    ck_assert_int_eq(last[2].waiting.struck, 0);
    fail_round(5, false);
    ck_assert_int_eq(last[0].world.restarts, 1);
}
END_TEST

/* `failed` and `ready` bear the number of a round alone: none that newcomers
 * used comes up again in the older instance. */
START_TEST(test_rdzv_rounds_of_two_instances_have_no_number_in_common)
{
    like.max_restarts = 100;
    run_two(2, 2);
    for (int i = 1; i < 7; i++)
        fail_round(i, false);
    ck_assert_int_eq(last[0].world.round, 7);
    member_joins(2, 0);
    member_joins(3, 1);
    failed(2, 5, 1, 0);
    ready(2, 5);
    ready(3, 5);
    ck_assert_int_eq(last[2].world.round, 8);
}
END_TEST

/* Found by the simulator (NEWCOMERS=1 SEED=1916983): a node of an instance that
 * nobody else here knew said ready of its round 2 twice. The second one came
 * when it was in our round 2, and was taken for that one's. */
START_TEST(test_rdzv_stale_round_has_no_number_of_a_round_to_come)
{
    run_two(2, 2);
    leave(1, false);
    both_ready(1);
    struct msg m = older(2, 78, 0);
    say(2, &m);
    ck_assert(told(2, "stop"));
    ready(2, 5);
    ck_assert(told(2, "world"));
    ck_assert_int_eq(last[2].world.round, 6);
    ready(2, 5);
    ck_assert(noted("stale") && !told(0, "stop"));
}
END_TEST

/* Nobody's claim brings our numbers near to those that no server believes. */
START_TEST(test_rdzv_stale_round_of_a_liar_is_not_left_out)
{
    run_two(2, 2);
    leave(1, false);
    both_ready(1);
    struct msg m = older(2, 78, 0);
    m.join.round = 998999999;
    say(2, &m);
    ck_assert(told(2, "stop"));
    ready(2, m.join.round);
    ck_assert_int_eq(last[2].world.round, 2);
}
END_TEST

/* Found by the simulator (NEWCOMERS=1 SEED=1916476): a node that was away while
 * its instance gave way, and while the older one came to its end, was not told:
 * it began the run anew. */
START_TEST(test_rdzv_end_is_told_to_the_instance_that_gave_way)
{
    run_two(2, 2);
    struct msg m = make_rejoin(1, 1, MSG_STATE_RUNNING, true);
    msg_set(m.join.instance, last[1].world.instance);
    m.join.instance_ms = 0;
    closed(1, false);
    member_joins(2, 0);
    member_joins(3, 1);
    done(2, 5);
    done(3, 5);
    pass(40 * MONO_S);
    say(4, &m);
    ck_assert(told(4, "end") && told(4, "drop"));
    ck_assert(msg_same_instance(last[4].end.instance,
                                make_rejoin(0, 5, 1, 1).join.instance));
}
END_TEST

/* Its round has the number of ours: what it says of its own workers' progress
 * breaks no crash loop here. */
START_TEST(test_rdzv_progress_in_another_instance_is_none_of_this_one)
{
    like.max_restarts = 100;
    like.crash_loop = 1;
    member_joins(0, 0);
    member_joins(1, 1);
    struct msg m = older(2, 78, 1000);
    say(2, &m);
    ck_assert(told(2, "stop"));
    m = (struct msg){.kind = MSG_KIND_ready,
                     .ready = {.round = 5, .progress = 1}};
    say(2, &m);
    fail_round(5, false);
    ck_assert(told(0, "end"));
    ck_assert_int_eq(last[0].end.status, ddp_code_exit(DDP_E_CRASHLOOP));
}
END_TEST

/* A chain of instances, each of which gave way to one that was older, and the
 * last of which, that of member_joins, is at its end: what a member of the
 * first one says who was away all the time. */
static struct msg chain(int length)
{
    run_two(2, 2);
    struct msg away = make_rejoin(1, 1, MSG_STATE_RUNNING, true);
    msg_set(away.join.instance, last[1].world.instance);
    closed(1, false);
    for (int i = 0; i < length; i++) {
        struct msg m = older(2 + i, 80 + i, 1000 << i);
        say(2 + i, &m);
        ck_assert(noted("rebuilt"));
    }
    member_joins(30, 0);
    ck_assert(noted("rebuilt"));
    member_joins(31, 1);
    done(30, 5);
    done(31, 5);
    ck_assert(told(30, "end"));
    pass(40 * MONO_S);
    away.join.instance_ms = 40000;
    away.join.sure = 0;
    return away;
}

/* Found by reading: only the last instance that gave way was remembered, and a
 * node of one before it began the run anew, which had succeeded. */
START_TEST(test_rdzv_end_is_told_to_every_instance_that_gave_way)
{
    struct msg m = chain(_i);
    say(20, &m);
    ck_assert(told(20, "end") && told(20, "drop"));
    ck_assert(msg_same_instance(last[20].end.instance,
                                make_rejoin(0, 5, 1, 1).join.instance));
    for (int i = 0; i < _i; i++) {
        m = older(12 + i, 80 + i, (1000 << i) + 40000);
        m.join.group_rank = 1;
        say(12 + i, &m);
        ck_assert(told(12 + i, "end") && told(12 + i, "drop"));
    }
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
}
END_TEST

/* The server to which the younger one gave way is no more, nor is its memory:
 * what began while the older one lived would have given way to it. What began
 * after its end is a new run. */
START_TEST(test_rdzv_end_is_told_to_what_began_beside_it)
{
    member_joins(0, 0);
    member_joins(1, 1);
    pass(100 * MONO_MS);
    done(0, 5);
    done(1, 5);
    pass(40 * MONO_S);
    struct msg m = older(2, 78, _i == 0 ? 40050 : 39950);
    m.join.sure = 0;
    say(2, &m);
    ck_assert(told(2, "end") == (_i == 0));
    ck_assert(noted("rebuilt") == (_i == 1));
}
END_TEST

/* A job that is started the moment its forerunner has ended, and a node of it
 * whose clock is a little fast: that the one is known here counts for more than
 * when it seems to have begun. */
START_TEST(test_rdzv_end_is_not_told_to_what_is_known_to_live)
{
    limits_of(1, 2);
    member_joins(0, 0);
    member_joins(1, 1);
    done(0, 5);
    done(1, 5);
    now_us += 10 * MONO_MS;
    like.last_call_ms = 0;
    join(2);
    join(3);
    tick(0);
    struct msg m = holds(3, &last[2].world, MSG_STATE_RUNNING);
    ck_assert_int_eq(m.join.round, 1);
    closed(3, true);
    ready(2, 1);
    pass(500 * MONO_MS);
    m.join.instance_ms = 600;
    m.join.sure = 0;
    say(4, &m);
    ck_assert(!told(4, "end") && told(4, "stop"));
}
END_TEST

/* An end that was told by a node is of no known age: it is that instance's
 * alone. */
START_TEST(test_rdzv_end_of_a_straggler_is_told_to_nothing_beside_it)
{
    struct msg m = make_rejoin(0, 5, MSG_STATE_DONE, true);
    m.join.ended = 1;
    say(0, &m);
    ck_assert(told(0, "end"));
    m = older(2, 78, 1000);
    say(2, &m);
    ck_assert(!told(2, "end") && noted("rebuilt"));
}
END_TEST

/* No round is sure, so that the run goes on as another instance: who slept
 * through that, and through its end, does not run it again. */
START_TEST(test_rdzv_end_is_told_to_who_slept_through_a_new_instance)
{
    limits_of(1, 3);
    world_of_rejoins = 3;
    rejoin(0, 0, 5, MSG_STATE_READY, false);
    rejoin(2, 2, 5, MSG_STATE_READY, false);
    ready(0, 5);
    ready(2, 5);
    for (int i = 0; !told(2, "world") && i < 80; i++) {
        now_us += HEARTBEAT / 2;
        beat_of(2, i + 1, i, 5);
        beat_of(0, i + 1, i, 5);
        if (!told(2, "world"))
            tick(0);
    }
    ck_assert(told(0, "world") && told(2, "world"));
    done(2, last[0].world.round);
    done(0, last[0].world.round);
    ck_assert(told(0, "end"));
    rejoin(1, 1, 5, MSG_STATE_READY, false);
    ck_assert(told(1, "end") && told(1, "drop"));
    ck_assert(msg_same_instance(last[1].end.instance, last[0].end.instance));
}
END_TEST

/* What newcomers waited for before they grow is nothing to the older one. */
START_TEST(test_rdzv_scale_interval_of_another_instance_is_none_of_this_one)
{
    like.scale_ms = 600000;
    run_two(2, 3);
    join(2); /* makes it larger */
    both_ready(1);
    ck_assert_int_eq(last[2].world.round, 2);
    for (int i = 3; i < 5; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.group_rank = i - 3;
        say(i, &m);
    }
    ck_assert(!told(3, "stop"));
    ready(0, 2);
    ck_assert(told(3, "stop") && told(4, "stop"));
}
END_TEST

/* A node of the newcomers, who was ready for their next round, is no member of
 * the older one: its roll is complete without that node. */
START_TEST(test_rdzv_roll_of_the_older_instance_is_called_without_newcomers)
{
    run_two(2, 2);
    struct msg old = holds(1, &last[1].world, MSG_STATE_READY);
    fail_round(1, false);
    struct msg heard = holds(0, &last[0].world, MSG_STATE_RUNNING);
    new_server();
    struct msg m = older(5, 78, 1000);
    m.join.state = MSG_STATE_READY;
    say(5, &m);
    ready(5, 5);
    say(0, &heard);
    ck_assert(noted("rebuilt") && !told(0, "stop"));
    say(1, &old);
    ready(1, 1);
    now_us += 20 * MONO_MS;
    tick(0);
    ck_assert(told(0, "stop")); /* all are here */
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_newcomers_instance_gives_way_to_a_running_one, 1},
        {test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop, 1},
        {test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round, 1},
        {test_rdzv_instance_gives_way_to_no_other, 3},
        {test_rdzv_older_instance_wins_though_it_comes_to_the_next_server, 1},
        {test_rdzv_any_sure_member_speaks_for_the_older_instance, 4},
        {test_rdzv_end_says_of_which_instance_it_is, 1},
        {test_rdzv_charges_of_another_instance_are_not_believed, 1},
        {test_rdzv_rounds_of_two_instances_have_no_number_in_common, 1},
        {test_rdzv_stale_round_has_no_number_of_a_round_to_come, 1},
        {test_rdzv_stale_round_of_a_liar_is_not_left_out, 1},
        {test_rdzv_end_is_told_to_the_instance_that_gave_way, 1},
        {test_rdzv_progress_in_another_instance_is_none_of_this_one, 1},
        {test_rdzv_end_is_told_to_every_instance_that_gave_way, 4},
        {test_rdzv_end_is_told_to_what_began_beside_it, 2},
        {test_rdzv_end_is_not_told_to_what_is_known_to_live, 1},
        {test_rdzv_end_of_a_straggler_is_told_to_nothing_beside_it, 1},
        {test_rdzv_end_is_told_to_who_slept_through_a_new_instance, 1},
        {test_rdzv_roll_of_the_older_instance_is_called_without_newcomers, 1},
        {test_rdzv_scale_interval_of_another_instance_is_none_of_this_one, 1},
    };
    return hand_main("rdzv_instances", tests, HAND_LEN(tests));
}
