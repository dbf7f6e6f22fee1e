/* links: tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * A server that ends in order: its last word is a long lease, and the next
 * server can tell that such are out.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rdzv_hand.h"

static void end_in_order(void)
{
    step(&(struct rdzv_event){.kind = RDZV_ENDING});
}

static void beat_knowing(int conn, int64_t seq, int64_t round)
{
    struct msg m = {.kind = MSG_KIND_beat};
    m.beat.seq = seq;
    m.beat.heard = seq - 1;
    m.beat.round = round;
    m.beat.long_out = 1;
    say(conn, &m);
}

/* 30 s less a fifth, to each once half of them know. */
START_TEST(test_rdzv_ending_grants_long_leases_once_half_know)
{
    run_two(1, 2);
    beat_of(0, 1, 0, 1);
    beat_of(1, 1, 0, 1);
    end_in_order();
    ck_assert(told(0, "lease") && told(1, "lease"));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(last[i].lease.long_out, 1);
        ck_assert_int_eq(last[i].lease.seq, 1);
        ck_assert_int_eq(last[i].lease.grant_ms, 800);
    }
    ck_assert_int_eq(rdzv_owed(rdzv), 2);
    beat_knowing(0, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 24000);
    ck_assert_int_eq(last[1].lease.grant_ms, 800); /* it has not said so */
    ck_assert_int_eq(rdzv_owed(rdzv), 1);
    beat_knowing(1, 2, 1);
    ck_assert_int_eq(last[1].lease.grant_ms, 24000);
    ck_assert_int_eq(rdzv_owed(rdzv), 0);
}
END_TEST

/* Of three, one is not enough; the second one's answer gives both theirs. */
START_TEST(test_rdzv_ending_waits_for_half_to_know)
{
    limits_of(2, 3);
    like.last_call_ms = 0;
    for (int i = 0; i < 3; i++)
        join(i);
    ck_assert_int_eq(last[2].world.group_world, 3);
    for (int i = 0; i < 3; i++)
        beat_of(i, 1, 0, 1);
    end_in_order();
    beat_knowing(0, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_knowing(1, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 24000);
    ck_assert_int_eq(last[1].lease.grant_ms, 24000);
    ck_assert_int_eq(last[2].lease.grant_ms, 800);
}
END_TEST

/* One that has not heard of the round could tell the next server of none. */
START_TEST(test_rdzv_ending_grants_none_in_a_round_that_not_all_confirmed)
{
    run_two(1, 2);
    beat_of(0, 1, 0, 1);
    end_in_order();
    beat_knowing(0, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 800);
    beat_knowing(1, 2, 1);
    ck_assert_int_eq(last[0].lease.grant_ms, 24000);
}
END_TEST

/* It promised to act no more, whatever comes. */
START_TEST(test_rdzv_ending_decides_nothing_more)
{
    run_two(1, 2);
    end_in_order();
    closed(1, true);
    ck_assert_str_eq(said, "");
    join(2);
    ck_assert_str_eq(said, "");
    failed(0, 1, 9, 0);
    ck_assert_str_eq(said, "");
    ck_assert(rdzv_deadline(rdzv) == MONO_NEVER);
    now_us += 100 * MONO_S;
    tick(0);
    ck_assert_str_eq(said, "");
}
END_TEST

/* Who waits runs no workers, and is owed nothing. */
START_TEST(test_rdzv_ending_owes_nothing_to_nodes_that_wait)
{
    join(0);
    end_in_order();
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(rdzv_owed(rdzv), 0);
}
END_TEST

/* The next server waits for a missing member as long as its last lease may
 * last, if one of those that came knows of such; else for a short one. */
START_TEST(test_rdzv_next_server_waits_for_long_leases_that_it_is_told_of)
{
    limits_of(1, 3);
    for (int i = 0; i < 2; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.group_world = 3;
        m.join.long_out = _i == 1 && i == 1;
        say(i, &m);
    }
    int beats = 0;
    while (!told(0, "stop") && ++beats < 200) {
        ck_assert_int_eq(last[0].lease.long_out, _i == 1);
        now_us += 400 * MONO_MS;
        beat_of(0, beats, beats - 1, 5);
        beat_of(1, beats, beats - 1, 5);
        tick(0);
    }
    ck_assert_int_eq(beats * 400 / 1000, _i == 1 ? 30 : 1);
}
END_TEST

/* ... and says so, should it end before the member has come. */
START_TEST(test_rdzv_next_server_tells_of_long_leases_until_all_are_back)
{
    limits_of(1, 3);
    for (int i = 0; i < 3; i++) {
        struct msg m = make_rejoin(i, 5, MSG_STATE_RUNNING, true);
        m.join.group_world = 3;
        m.join.long_out = 1;
        say(i, &m);
    }
    beat_of(0, 1, 0, 5);
    ck_assert_int_eq(last[0].lease.long_out, 0);
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_rdzv_ending_grants_long_leases_once_half_know, 1},
        {test_rdzv_ending_waits_for_half_to_know, 1},
        {test_rdzv_ending_grants_none_in_a_round_that_not_all_confirmed, 1},
        {test_rdzv_ending_decides_nothing_more, 1},
        {test_rdzv_ending_owes_nothing_to_nodes_that_wait, 1},
        {test_rdzv_next_server_waits_for_long_leases_that_it_is_told_of, 2},
        {test_rdzv_next_server_tells_of_long_leases_until_all_are_back, 1},
    };
    return hand_main("rdzv_ending", tests, HAND_LEN(tests));
}
