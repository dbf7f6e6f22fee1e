/* links: tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * Connections that break, and leases.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rdzv_hand.h"

/* -- connections that break ------------------------------------------------ */

START_TEST(test_rdzv_absent_node_is_waited_for_until_its_lease_is_over)
{
    run_two(1, 3);
    now_us += HEARTBEAT / 2;
    beat_of(0, 5, 4, 1);
    closed(1, false);
    failed(0, 1, 3, 0);
    ready(0, 1);
    ck_assert(!told(0, "world"));
    now_us += HEARTBEAT / 2 - MONO_MS;
    beat_of(0, 6, 5, 1);
    tick(0);
    ck_assert(!told(0, "world"));
    now_us += 2 * MONO_MS;
    tick(0);
    ck_assert(told(0, "world") && noted("lost"));
    ck_assert_int_eq(last[0].world.group_world, 1);
}
END_TEST

START_TEST(test_rdzv_world_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    struct msg world = last[1];
    closed(1, false);
    struct msg m = make_join(1);
    say(11, &m);
    ck_assert_str_eq(said, "11:lease 11:world ");
    ck_assert_mem_eq(&last[11].world, &world.world, sizeof(world.world));
    /* Who has it is not told again. */
    m = make_rejoin(1, 1, MSG_STATE_RUNNING, true);
    msg_set(m.join.instance, world.world.instance);
    say(12, &m);
    ck_assert_str_eq(said, "11:drop 12:lease ");
}
END_TEST

START_TEST(test_rdzv_stop_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    failed(0, 1, 3, 0);
    rejoin(11, 1, 1, MSG_STATE_RUNNING, true);
    ck_assert(told(11, "stop"));
    ck_assert_int_eq(last[11].stop.round, 1);
    ready(0, 1);
    ready(11, 1);
    ck_assert(told(11, "world"));
}
END_TEST

START_TEST(test_rdzv_end_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    leave(0, true);
    ck_assert(!told(1, "end"));
    rejoin(11, 1, 1, MSG_STATE_RUNNING, true);
    ck_assert(told(11, "end"));
}
END_TEST

/* -- leases ---------------------------------------------------------------- */

/* Two of two, and both have said that they hold the round. */
START_TEST(test_rdzv_long_lease_where_nobody_could_go_on)
{
    run_two(2, 2);
    ck_assert_int_eq(last[0].kind, MSG_KIND_world);
    beat_of(0, 1, 0, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_of(1, 1, 0, 1);
    ck_assert_int_eq(last[1].lease.grant_ms, 24000);
    beat_of(0, 2, 1, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 24000);
    now_us += 29 * MONO_S;
    tick(0);
    ck_assert_str_eq(notes, "");
    now_us += 2 * MONO_S;
    tick(0);
    ck_assert(noted("lost"));
}
END_TEST

/* A spare makes leases short; the long one is honoured until the agent says
 * that it got a short one. */
START_TEST(test_rdzv_long_lease_is_honoured_until_a_short_one_is_heard)
{
    run_two(2, 2);
    beat_of(0, 1, 0, 1);
    beat_of(1, 1, 0, 1);
    beat_of(0, 2, 1, 1);
    join(2);
    ck_assert(noted("spare"));
    beat_of(0, 3, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_of(1, 2, 1, 1);
    now_us += HEARTBEAT / 2;
    beat_of(1, 3, 2, 1);
    now_us += HEARTBEAT;
    tick(0);
    /* 1 has heard a short one and is lost; 0 has not, and may run. */
    ck_assert(noted("lost") && told(1, "drop") && !told(0, "drop"));
}
END_TEST

START_TEST(test_rdzv_own_lag_is_nobodys_fault)
{
    run_two(1, 3);
    now_us += 10 * HEARTBEAT;
    tick(10 * HEARTBEAT);
    ck_assert_str_eq(notes, "");
    now_us += HEARTBEAT + MONO_MS;
    tick(0);
    ck_assert(noted("lost"));
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_absent_node_is_waited_for_until_its_lease_is_over, 1},
        {test_rdzv_world_is_said_again_to_who_missed_it, 1},
        {test_rdzv_stop_is_said_again_to_who_missed_it, 1},
        {test_rdzv_end_is_said_again_to_who_missed_it, 1},
        {test_rdzv_long_lease_where_nobody_could_go_on, 1},
        {test_rdzv_long_lease_is_honoured_until_a_short_one_is_heard, 1},
        {test_rdzv_own_lag_is_nobodys_fault, 1},
    };
    return hand_main("rdzv_lease", tests, HAND_LEN(tests));
}
