/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * An operator's orders: drain and end. go-on is in check_rdzv_takeover.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* It is told, the others stop at a step, nothing is charged. */
TEST(test_rdzv_drained_node_leaves_and_the_others_go_on)
{
    run_two(1, 2);
    order_drain("", "n1", false);
    ck_assert(told(1, "drain") && !told(1, "stop"));
    ck_assert(told(ORDERS, "answered") && told(ORDERS, "drop"));
    ck_assert_str_eq(last[1].stop.text, "drained by ddpctl from 10.0.0.1");
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_DOWN);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "at a step"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "1 node is left"));
    leave(1, false); /* as the agent answers */
    failed(1, 1, 3, 0);
    ready(0, 1);
    ready(1, 1);
    ck_assert_int_eq(rdzv_nodes(rdzv), 1);
    ck_assert_int_eq(placed[0].round, 2);
    ck_assert_int_eq(placed[0].restarts, 0);
    ck_assert_int_eq(placed[0].group_world, 1);
}

static void ask_to_be_drained(int conn)
{
    struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ASKS};
    say(conn, &m);
}

/* As by an operator's order, though nobody is answered. */
TEST(test_rdzv_node_may_ask_for_its_drain)
{
    run_two(1, 2);
    ask_to_be_drained(1);
    ck_assert(told(1, "drain") && !told(1, "stop") && noted("ordered"));
    ck_assert_str_eq(last[1].stop.text,
                     "drained by its own check (--drain_check)");
    ck_assert_int_eq(last[0].stop.graceful, MSG_SCALE_DOWN);
    ask_to_be_drained(1); /* it was on its way */
    ck_assert(!told(1, "drain") && !told(0, "stop"));
    leave(1, false);
    ready(0, 1);
    ready(1, 1);
    ck_assert_int_eq(placed[0].round, 2);
    ck_assert_int_eq(placed[0].group_world, 1);
    ask_to_be_drained(0); /* the last one */
    ck_assert_str_eq(said, "");
}

/* Of two that ask at once, a run that needs one lets one go; a spare takes the
 * place of a node that nobody else could. */
TEST_LOOP(test_rdzv_node_that_is_needed_is_not_drained, 0, 2)
{
    run_two(_i == 0 ? 2 : 1, 2);
    if (_i == 0) {
        ask_to_be_drained(1);
        ck_assert_str_eq(said, "");
        join(2);
        ask_to_be_drained(1);
        ck_assert(told(1, "drain") && told(0, "stop"));
        return;
    }
    ask_to_be_drained(0);
    ck_assert(told(0, "drain") && told(1, "stop"));
    ask_to_be_drained(1);
    ck_assert_str_eq(said, "");
}

/* Found by reading: its workers wait for their peers at a step, too. Where one
 * of these fails it has to be told, and told again where that was lost, or all
 * wait for its grace to be over. */
TEST_LOOP(test_rdzv_drained_node_is_hurried_by_a_failure, 0, 2)
{
    run_two(1, 2);
    struct msg m = holds(1, &placed[1], MSG_STATE_STOPPED);
    order_drain("", "n1", false);
    if (_i == 1)
        closed(1, false);
    now_us += 100 * MONO_MS;
    failed(0, 1, 9, 0);
    ck_assert(told(0, "stop") && told(1, "stop") == (_i == 0));
    if (_i == 1)
        say(1, &m);
    ck_assert(told(1, "stop"));
    ck_assert_int_eq(last[1].stop.graceful, MSG_AT_ONCE);
}

/* Not below the fewest nodes, nor the one that serves, without force. */
TEST_LOOP(test_rdzv_drain_that_would_stop_the_run_needs_force, 0, 2)
{
    like.hosts = _i == 1;
    if (_i == 0)
        run_two(2, 3);
    else
        run_two(1, 3);
    order_drain("", "n1", false);
    ck_assert(noted("order_refused") && !noted("ordered"));
    ck_assert(told(ORDERS, "refused") && !told(1, "drain") && !told(0, "stop"));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "--force"));
    order_drain("", "n1", true);
    ck_assert(told(ORDERS, "answered") && told(1, "drain") && told(0, "stop"));
    ready(0, 1);
    leave(1, false);
    ready(1, 1);
    ck_assert(told(0, _i == 0 ? "waiting" : "world"));
    join(2); /* the other one */
    ck_assert_int_eq(rdzv_nodes(rdzv), 2);
}

/* One of the nodes that wait for a first round: the last call is off. */
TEST(test_rdzv_drain_while_nodes_gather_calls_the_seal_off)
{
    like.last_call_ms = 1000;
    limits_of(2, 4);
    join(0);
    join(1);
    ck_assert(noted("last_call"));
    order_drain("", "n1", true);
    ck_assert(told(1, "drain"));
    now_us += 2 * MONO_S / 5;
    beat_of(0, 1, 0, 0);
    beat_of(1, 1, 0, 0);
    now_us += 2 * MONO_S / 5;
    beat_of(0, 2, 1, 0);
    beat_of(1, 2, 1, 0);
    now_us += 2 * MONO_S / 5;
    tick(0);
    ck_assert(!told(0, "world"));
    leave(1, false);
    ck_assert(told(1, "drop"));
    join(2);
    ck_assert(noted("last_call"));
}

/* A run's id that does not fit is cut visibly. */
TEST(test_rdzv_list_of_nodes_shows_that_an_id_is_cut)
{
    for (int i = 0; i < 2; i++) {
        struct msg m = make_join(i);
        msg_set(m.join.name, "host");
        msg_set(m.join.run, i == 0
                                ? "of-30-bytes-01234567890123456789"
                                : "a-run-with-a-very-long-id-that-ends-here");
        m.join.run[30 + 10 * i] = '\0';
        say(i, &m);
    }
    order_drain("", "host", false);
    const char *text = last[ORDERS].refused.text;
    ck_assert_ptr_nonnull(strstr(text, "'of-30-bytes-012345678901234567', "));
    ck_assert_ptr_nonnull(
        strstr(text, "'a-run-with-a-very-long-id-that...'; "));
    ck_assert_ptr_nonnull(strstr(text, "give one of these ids, or --run"));
}

/* One node, two nodes: the sentence fits. */
TEST(test_rdzv_end_tells_how_many_are_told)
{
    limits_of(1, 2);
    like.last_call_ms = 0;
    join(0);
    order_end("r");
    ck_assert_str_eq(last[ORDERS].answered.text,
                     "run 'r' ends: its only node is told to stop, and its "
                     "launcher ends with status 84");
    new_server();
    run_two(2, 2);
    order_end("r");
    ck_assert_str_eq(last[ORDERS].answered.text,
                     "run 'r' ends: its 2 nodes are told to stop, and their "
                     "launchers end with status 84");
}

/* -- stacks ---------------------------------------------------------------- */

static void order_stacks(int conn, int64_t rank)
{
    struct msg m = {.kind = MSG_KIND_order,
                    .order = {.version = MSG_VERSION,
                              .verb = MSG_ORDER_STACKS,
                              .rank = rank}};
    msg_set(m.order.run, "r");
    say(conn, &m);
}

static void found(int conn, int64_t number, bool all)
{
    struct msg m = {
        .kind = MSG_KIND_answered,
        .answered = {.number = number, .more = !all, .text = "#0\n"}};
    say(conn, &m);
}

/* The node that has the rank is asked; what it finds goes to the operator,
 * whose connection stays until that is all. */
TEST(test_rdzv_stacks_are_asked_of_the_node_of_the_rank)
{
    run_two(1, 2);
    order_stacks(ORDERS, placed[1].base_rank);
    ck_assert(told(1, "look") && !told(0, "look") && noted("ordered"));
    ck_assert_int_eq(last[1].look.local_rank, 0);
    ck_assert_int_eq(last[1].look.round, 1);
    int64_t number = last[1].look.number;
    ck_assert(told(ORDERS, "answered") && !told(ORDERS, "drop"));
    ck_assert_int_eq(last[ORDERS].answered.more, 1);
    found(0, number, true); /* another node's word */
    found(1, number + 1, true);
    ck_assert_str_eq(said, "");
    found(1, number, false);
    ck_assert(told(ORDERS, "answered") && !told(ORDERS, "drop"));
    ck_assert_str_eq(last[ORDERS].answered.text, "#0\n");
    found(1, number, true);
    ck_assert(told(ORDERS, "answered") && told(ORDERS, "drop"));
    ck_assert_int_eq(last[ORDERS].answered.more, 0);
    found(1, number, true);
    ck_assert_str_eq(said, "");
}

/* Who goes before hears nothing more; who says anything else while it waits is
 * dropped. So its place is free for others. */
TEST(test_rdzv_stacks_of_an_operator_that_goes)
{
    run_two(1, 2);
    for (int i = 0; i < 24; i++) {
        order_stacks(ORDERS, 0);
        ck_assert(told(0, "look"));
        if (i % 2 == 0)
            closed(ORDERS, false);
        else
            order_end("r");
        ck_assert(i % 2 == 0 || (told(ORDERS, "drop") && !told(0, "end")));
        found(0, last[0].look.number, true);
        ck_assert(!told(ORDERS, "answered"));
    }
}

/* Why not: no such rank, a node that is away, too many. */
TEST_LOOP(test_rdzv_stacks_that_cannot_be_had, 0, 3)
{
    static const char *const why[] = {"has no rank", "is absent", "ask again"};
    run_two(1, 2);
    if (_i == 1)
        closed(0, false);
    for (int i = 0; _i == 2 && i < 8; i++)
        order_stacks(20 + i, 0);
    order_stacks(ORDERS, _i == 0 ? placed[1].world_size : 0);
    ck_assert(told(ORDERS, "refused") && told(ORDERS, "drop"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, why[_i]));
    ck_assert(!told(0, "look"));
}

/* Between two rounds, and after the end, there is no worker: not that ranks 0
 * to 7 were all of them. */
TEST_LOOP(test_rdzv_stacks_without_workers, 0, 2)
{
    static const char *const why[] = {"runs no workers now", "over already"};
    run_two(1, 2);
    if (_i == 0)
        failed(0, 1, 3, 0);
    else
        order_end("r");
    order_stacks(ORDERS, 8);
    ck_assert(told(ORDERS, "refused") && !told(0, "look"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, why[_i]));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_ABORTED);
}

/* Which node: by name, by the beginning of an agent id, in one run or all. */
TEST(test_rdzv_drain_finds_the_one_node_that_is_meant)
{
    run_two(1, 4);
    struct msg m = make_join(7);
    msg_set(m.join.name, "n1"); /* the same host, another launcher */
    msg_set(m.join.agent, "cafe0000000000000000000000000007");
    say(7, &m);
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "refused") && !told(1, "drain"));
    const char *text = last[ORDERS].refused.text;
    ck_assert_ptr_nonnull(strstr(text, "'n1' matches 2 nodes of run 'r': "));
    ck_assert_ptr_nonnull(strstr(text, ", cafe0000; give one of these ids"));
    ck_assert_ptr_null(strstr(text, "--run"));
    order_drain("", "caf", false); /* too short for an id */
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no node 'caf'"));
    order_drain("r", "n9", false);
    ck_assert_ptr_nonnull(
        strstr(last[ORDERS].refused.text, "no node 'n9' in run 'r'"));
    order_drain("other", "n1", false);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no run 'other'"));
    order_drain("", "cafe", false);
    ck_assert(told(ORDERS, "answered") && told(7, "drain"));
    order_drain("r", "cafe", false);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "already"));
    ck_assert(!told(7, "drain"));
}

/* The same name twice in another run: the run tells which. */
TEST(test_rdzv_drain_in_one_of_two_runs)
{
    run_two(1, 2);
    struct msg m = make_join(1);
    msg_set(m.join.run, "r2");
    msg_set(m.join.agent, "beef0000000000000000000000000001");
    say(5, &m);
    order_drain("", "n1", false);
    ck_assert(told(ORDERS, "refused"));
    order_drain("r2", "n1", true);
    ck_assert(told(5, "drain") && !told(1, "drain"));
}

TEST(test_rdzv_order_ends_a_run_for_all)
{
    run_two(2, 2);
    order_end("r");
    ck_assert(told(0, "end") && told(1, "end"));
    ck_assert(told(ORDERS, "answered") && told(ORDERS, "drop"));
    ck_assert_int_eq(last[0].end.status, 84);
    ck_assert_str_eq(last[1].end.text, "ended by ddpctl from 10.0.0.1");
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "its 2 nodes"));
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
    order_end("r");
    ck_assert(told(ORDERS, "refused"));
    ck_assert_ptr_nonnull(
        strstr(last[ORDERS].refused.text, "over already, with status 84"));
    order_drain("", "n1", true);
    ck_assert(told(ORDERS, "refused"));
    order_end("nope");
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "no run 'nope'"));
}

/* Neither another version's, nor on a connection that has joined. */
TEST(test_rdzv_order_that_is_out_of_order_is_refused)
{
    struct msg m = {.kind = MSG_KIND_order, .order.verb = MSG_ORDER_END};
    run_two(2, 2);
    m.order.version = MSG_VERSION + 1;
    msg_set(m.order.run, "r");
    say(ORDERS, &m);
    ck_assert(told(ORDERS, "refused") && !told(0, "end"));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_CONFLICT);
    m.order.version = MSG_VERSION;
    say(0, &m);
    ck_assert(told(0, "drop") && !told(1, "end"));
    m = (struct msg){.kind = MSG_KIND_answered};
    say(ORDERS, &m);
    ck_assert(told(ORDERS, "drop") && !told(ORDERS, "answered"));
}

/* Or a server after us, which finds it ready for the next round and knows of no
 * drain, would take it for one of that. */
TEST(test_rdzv_seal_waits_until_a_drained_survivor_knows)
{
    run_two(1, 2);
    failed(0, 1, 3, 0);
    ready(1, 1);
    order_drain("", "n1", false);
    ck_assert(told(1, "drain"));
    ready(0, 1);
    ck_assert(!told(0, "world"));
    ck_assert_int_gt(rdzv_deadline(rdzv), now_us);
    leave(1, false);
    ck_assert(told(0, "world"));
}

/* Without a token: whoever can reach the port can become a spare. */
TEST(test_rdzv_orders_of_strangers_are_refused)
{
    limits_of(2, 2);
    join(0);
    join(1);
    comes_from = "10.0.0.5";
    join(2);
    ck_assert_int_ge(last[2].waiting.what_for, MSG_FOR_A_PLACE);
    orders_are_trusted = false;
    for (int i = 0; i < 2; i++) {
        order_drain("", i == 0 ? "n2" : "n1", true);
        ck_assert(told(ORDERS, "refused") && noted("order_refused"));
        order_end("r");
        ck_assert(told(ORDERS, "refused"));
        ck_assert(!told(0, "end"));
        comes_from = "10.0.0.6"; /* nobody's host */
    }
    comes_from = "10.0.0.1";
    order_drain("", "n2", false);
    ck_assert(told(2, "drain"));
    closed(1, false); /* its host may be anybody's by now */
    closed(0, false);
    order_end("r");
    ck_assert(told(ORDERS, "refused"));
    orders_are_trusted = true;
    order_end("r");
    ck_assert(told(ORDERS, "answered"));
}

HAND_SUITE("rdzv_command")
