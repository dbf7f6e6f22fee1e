/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Nodes that fail first again and again.
 */
#include <check.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* A worker on node `who` failed, and the nodes of `members` are ready. */
static void fail_on(int who, int64_t round, const char *members)
{
    failed(who, round, 9, 0);
    for (const char *c = members; *c != '\0'; c++)
        if (*c != '0' + who)
            ready(*c - '0', round);
    ready(who, round);
}

/* Nodes 0 and 1 run, 2 and so on up to `n` wait; K failures in a row. */
static void run_strikes(int strikes, int n)
{
    like.max_restarts = 100;
    like.node_strikes = strikes;
    like.cooldown_ms = 10000;
    run_two(2, 2);
    for (int i = 2; i < n; i++)
        join(i);
}

TEST(test_rdzv_node_that_fails_first_k_times_is_quarantined)
{
    run_strikes(3, 3);
    fail_on(1, 1, "01");
    fail_on(0, 2, "01"); /* another one: counted anew */
    fail_on(1, 3, "01");
    fail_on(1, 4, "01");
    ck_assert(!noted("quarantined") && told(1, "world"));
    ck_assert_int_eq(placed[1].strikes, 2);
    ck_assert_int_eq(placed[0].strikes, 0);
    fail_on(1, 5, "01");
    ck_assert(noted("quarantined") && told(0, "world") && told(2, "world"));
    ck_assert(told(1, "waiting") && !told(1, "world"));
    ck_assert_int_ge(last[1].waiting.what_for, MSG_FOR_A_PLACE);
    ck_assert_int_eq(last[1].waiting.strikes, 3);
    ck_assert_int_eq(last[1].waiting.cooldown_left_ms, 10000);
    ck_assert_int_eq(placed[2].group_rank, 1); /* the place of node 1 */
}

TEST(test_rdzv_node_that_the_minimum_needs_is_never_quarantined)
{
    run_strikes(2, 2);
    fail_on(1, 1, "01");
    ck_assert(!noted("kept"));
    fail_on(1, 2, "01");
    ck_assert(noted("kept") && !noted("quarantined") && told(1, "world"));
    join(2); /* a spare: the next failure finds that it is needed no more */
    fail_on(0, 3, "01");
    ck_assert(noted("quarantined") && told(2, "world") && told(1, "waiting"));
}

/* The last resort: with its own rank, since nobody else has had it. */
TEST(test_rdzv_quarantined_node_is_taken_where_too_few_are_left)
{
    run_strikes(2, 3);
    fail_on(1, 1, "01");
    fail_on(1, 2, "01");
    ck_assert(told(1, "waiting") && told(2, "world"));
    closed(2, true);
    ready(0, 3);
    ck_assert(noted("recalled") && told(0, "world") && told(1, "world"));
    join(3); /* the cool-down still runs: at the next end it goes again */
    fail_on(0, 4, "01");
    ck_assert(noted("quarantined") && told(3, "world") && told(1, "waiting"));
    ck_assert_int_gt(last[1].waiting.cooldown_left_ms, 0);
}

/* It makes no round larger meanwhile, and does so afterwards. */
TEST(test_rdzv_quarantined_node_comes_back_after_its_cool_down)
{
    like.max_restarts = 100;
    like.node_strikes = 1;
    like.cooldown_ms = 10000;
    run_two(1, 2);
    fail_on(1, 1, "01");
    ck_assert(told(0, "world") && !told(1, "world"));
    ck_assert_int_eq(placed[0].group_world, 1);
    later(10 * MONO_S - 1, 2, 2);
    tick(0);
    ck_assert(!told(0, "stop"));
    now_us += 1;
    tick(0);
    ck_assert(noted("recalled") && told(0, "stop"));
    ready(0, 2);
    ck_assert(told(0, "world") && told(1, "world"));
    ck_assert_int_eq(placed[1].strikes, 0);
}

/* What it was told comes back with its join: a broken connection, or another
 * server, gives it no place. */
TEST_LOOP(test_rdzv_cool_down_survives_connection_and_server, 0, 2)
{
    run_strikes(2, 3);
    fail_on(1, 1, "01");
    fail_on(1, 2, "01");
    closed(1, false); /* removed, as any spare */
    if (_i == 1)
        new_server();
    for (int who = 0; who < 3 && _i == 1; who += 2) {
        struct msg m = make_rejoin(who, 3, MSG_STATE_RUNNING);
        m.join.group_rank = who / 2;
        rejoin_voted(who, &m, "02");
    }
    struct msg m = make_rejoin(1, 3, MSG_STATE_NONE);
    if (_i == 0) /* the instance that this server made */
        msg_set(m.join.instance, placed[2].instance);
    m.join.strikes = 2;
    m.join.cooldown_left_ms = 4000;
    say(1, &m);
    ck_assert(noted("quarantined") && told(1, "waiting"));
    ck_assert_int_eq(last[1].waiting.strikes, 2);
    ck_assert_int_eq(last[1].waiting.cooldown_left_ms, 4000);
}

TEST(test_rdzv_failures_in_a_row_are_told_to_the_next_server)
{
    like.max_restarts = 100;
    like.node_strikes = 3;
    like.cooldown_ms = 10000;
    for (int who = 0; who < 2; who++) {
        struct msg m = make_rejoin(who, 5, MSG_STATE_RUNNING);
        m.join.strikes = who == 1 ? 2 : 0;
        rejoin_voted(who, &m, "01");
    }
    join(2);
    fail_on(1, 5, "01");
    ck_assert(noted("quarantined") && told(2, "world"));
}

/* All workers say that a peer went first: it counts against nobody, and starts
 * no count again. */
TEST(test_rdzv_failure_without_a_cause_strikes_nobody)
{
    run_strikes(2, 3);
    fail_on(1, 1, "01");
    for (int who = 0; who < 2; who++)
        failed(who, 2, 77, 0);
    ready(0, 2);
    ready(1, 2);
    ck_assert(!noted("quarantined") && told(0, "world") && told(1, "world"));
    ck_assert_int_eq(placed[0].strikes, 0);
    ck_assert_int_eq(placed[1].strikes, 1);
    fail_on(1, 3, "01");
    ck_assert(noted("quarantined"));
}

/* Node 1 tells that a worker's own part of a step takes 20 ms longer than the
 * 100 ms of all others. */
static void make_node_1_slow(int64_t round)
{
    for (int who = 0; who < 2; who++) {
        struct msg m = {.kind = MSG_KIND_beat,
                        .beat = {.seq = 1,
                                 .heard = -1,
                                 .round = round,
                                 .steps = 5,
                                 .own = who == 1 ? 120000 : 100000,
                                 .own_rest = 100000}};
        now_us += MONO_S;
        say(who, &m);
    }
    ck_assert(noted("slow"));
}

/* A round that no failure ends strikes the node of its slow rank; a failure on
 * another node strikes that one alone. In the next round nobody is slow yet. */
TEST_LOOP(test_rdzv_slow_rank_strikes_its_node, 0, 2)
{
    like.heartbeat_ms = 60000;
    like.max_restarts = 100;
    like.node_strikes = 1;
    like.cooldown_ms = 10000;
    run_two(1, 2);
    join(2);
    make_node_1_slow(1);
    if (_i == 0) {
        leave(0, false);
        ready(1, 1);
        ready(0, 1);
        ck_assert(noted("quarantined") && told(1, "waiting"));
        ck_assert_int_eq(last[1].waiting.strikes, 1);
        ck_assert(told(2, "world"));
    } else {
        fail_on(0, 1, "01");
        ck_assert(noted("quarantined") && told(0, "waiting"));
        ck_assert(told(1, "world") && told(2, "world"));
        ck_assert_int_eq(placed[1].strikes, 0);
        leave(2, false);
        ready(1, 2);
        ready(2, 2);
        ck_assert(told(1, "world"));
        ck_assert_int_eq(placed[1].strikes, 0);
    }
}

TEST(test_rdzv_quarantined_node_can_be_drained)
{
    run_strikes(1, 3);
    fail_on(1, 1, "01");
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "answered") && told(1, "drain"));
    leave(1, false);
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
}

HAND_SUITE("rdzv_strikes")
