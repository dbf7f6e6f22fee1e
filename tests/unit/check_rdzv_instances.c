/* links: tests/unit/rdzv_hand rendezvous/core/rdzv rendezvous/core/join */
/* links: rendezvous/core/round rendezvous/core/node rendezvous/core/ranks */
/* links: rendezvous/core/note rendezvous/proto/msg rendezvous/base/err */
/* links: rendezvous/base/mono rendezvous/base/rng rendezvous/core/budget */
/* links: rendezvous/core/order rendezvous/core/strikes */
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
    for (int i = 1; _i == 1 && i < 80; i++) { /* 36 s: 30 s and 5 s */
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

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_newcomers_instance_gives_way_to_a_running_one, 1},
        {test_rdzv_stale_node_is_ready_of_the_round_it_was_told_to_stop, 1},
        {test_rdzv_leaving_node_is_gone_by_a_ready_of_its_round, 1},
        {test_rdzv_instance_gives_way_to_no_other, 3},
    };
    return hand_main("rdzv_instances", tests, HAND_LEN(tests));
}
