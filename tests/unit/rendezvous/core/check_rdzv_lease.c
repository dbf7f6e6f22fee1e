/* links: tests/unit/rendezvous/core/rdzv_hand */
/* libs: -lcjson */
/*
 * Connections that break, what a node that is back is told, and leases.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/rdzv_hand.h"

/* -- connections that break ------------------------------------------------ */

TEST(test_rdzv_absent_node_is_waited_for_until_its_lease_is_over)
{
    run_two(1, 3);
    beat_of(1, 4, 3, 1);
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
    ck_assert_int_eq(placed[0].group_world, 1);
}

/* Those that are stopped for it learn when a lost node was heard of last. */
TEST(test_rdzv_stop_tells_how_long_a_lost_node_was_silent)
{
    run_two(1, 3);
    beat_of(0, 5, 4, 1);
    beat_of(1, 5, 4, 1);
    now_us += HEARTBEAT / 2;
    beat_of(0, 6, 5, 1);
    now_us += HEARTBEAT / 2 + MONO_MS;
    beat_of(0, 7, 6, 1);
    tick(0);
    ck_assert(told(0, "stop") && noted("lost"));
    ck_assert_int_eq(last[0].stop.detect_ms, HEARTBEAT / MONO_MS + 1);
}

/* A worker that died a second before its agent knew; and the same moment for a
 * node that hears of the stop later. */
TEST(test_rdzv_stop_tells_how_long_a_worker_has_been_dead)
{
    run_two(2, 2);
    beat_of(0, 5, 4, 1);
    beat_of(1, 5, 4, 1);
    now_us += HEARTBEAT / 4;
    closed(1, false);
    failed(0, 1, 3, MONO_S);
    now_us += HEARTBEAT / 2;
    struct msg m = holds(1, &placed[1], MSG_STATE_RUNNING);
    say(11, &m);
    ck_assert(told(11, "stop"));
    ck_assert_int_eq(last[11].stop.detect_ms, 1500);
}

/* One that leaves is no loss, and nothing was amiss before. */
TEST(test_rdzv_stop_tells_of_no_silence_without_a_loss)
{
    run_two(1, 3);
    beat_of(0, 5, 4, 1);
    beat_of(1, 5, 4, 1);
    now_us += HEARTBEAT / 2;
    closed(1, true);
    ck_assert(told(0, "stop"));
    ck_assert_int_eq(last[0].stop.detect_ms, 0);
}

TEST(test_rdzv_world_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    struct msg_world world = placed[1];
    closed(1, false);
    struct msg m = make_join(1);
    say(11, &m);
    ck_assert_str_eq(said, "11:prepare 11:lease 11:voters 11:world ");
    world.pending = 0;
    ck_assert_mem_eq(&placed[11], &world, sizeof(world));
    /* A node that has it is not told again. */
    m = make_rejoin(1, 1, MSG_STATE_RUNNING);
    msg_set(m.join.instance, world.instance);
    say(12, &m);
    ck_assert_str_eq(said, "11:drop 12:prepare 12:lease ");
}

TEST(test_rdzv_stop_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    failed(0, 1, 3, 0);
    struct msg m = holds(1, &placed[1], MSG_STATE_RUNNING);
    say(11, &m);
    ck_assert(told(11, "stop"));
    ck_assert_int_eq(last[11].stop.round, 1);
    ready(0, 1);
    ready(11, 1);
    ck_assert(told(11, "world"));
}

TEST(test_rdzv_end_is_said_again_to_who_missed_it)
{
    run_two(2, 2);
    closed(1, false);
    leave(0, true);
    ck_assert(!told(1, "end"));
    struct msg m = holds(1, &placed[1], MSG_STATE_RUNNING);
    say(11, &m);
    ck_assert(told(11, "end"));
}

/* -- addresses ------------------------------------------------------------- */

/* From where node `who` comes, and what it holds: `w`, or nothing. */
static void joins_from(
    int conn, int who, const char *addr, int port, const struct msg_world *w)
{
    struct msg m =
        w != NULL ? holds(who, w, MSG_STATE_RUNNING) : make_join(who);
    msg_set(m.join.addr, addr);
    m.join.port = port;
    say(conn, &m);
}

/* Nodes 0 and 1 of round 1, in which node 0 is the first. */
static struct msg_world run_two_at(const char *first, const char *second)
{
    joins_from(0, 0, first, 4000, NULL);
    joins_from(1, 1, second, 4001, NULL);
    ck_assert(told(0, "world"));
    members_said[0] = '\0';
    members_pieces = 0;
    return placed[0];
}

/* Found by reading: a node whose address changed (a new lease of DHCP, a
 * tunnel that came up again) kept the old one in all rounds to come. An empty
 * one is that of its connection. */
TEST_LOOP(test_rdzv_node_that_is_back_has_its_new_address, 0, 2)
{
    struct msg_world w = run_two_at("10.0.0.7", "10.0.0.8");
    ck_assert_str_eq(w.master_addr, "10.0.0.7");
    closed(0, false);
    joins_from(10, 0, _i == 0 ? "10.0.0.77" : "", 4077, &w);
    ck_assert_str_eq(said, "10:prepare 10:lease "); /* the round runs on */
    failed(1, 1, 9, 0);
    ready(10, 1);
    ready(1, 1);
    ck_assert_int_eq(placed[10].round, 2);
    ck_assert_int_eq(placed[10].group_rank, 0);
    ck_assert_str_eq(placed[1].master_addr, _i == 0 ? "10.0.0.77" : "10.0.0.1");
    ck_assert_int_eq(placed[1].master_port, 4077);
    ck_assert_str_eq(members_said,
                     _i == 0 ? "2: 10.0.0.77 10.0.0.1 10.0.0.8 10.0.0.1 "
                             : "2: 10.0.0.1 10.0.0.8 10.0.0.1 ");
}

/* The same of the address to which the others come, by which one on the
 * server's own host is known. */
TEST(test_rdzv_first_node_on_our_host_is_where_the_others_come_to)
{
    struct msg_world w = run_two_at("127.0.0.1", "10.0.0.8");
    ck_assert_str_eq(w.master_addr, "10.0.0.9");
    closed(1, false);
    struct msg m = make_rejoin(1, 1, MSG_STATE_RUNNING);
    msg_set(m.join.instance, w.instance);
    msg_set(m.join.addr, "10.1.0.8");
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = 11,
                              .msg = &m,
                              .peer_addr = "10.1.0.8",
                              .here_addr = "10.1.0.9"});
    failed(0, 1, 9, 0);
    ready(0, 1);
    ready(11, 1);
    ck_assert_str_eq(placed[0].master_addr, "10.1.0.9");
}

/* The first node did not hear of the round, and is elsewhere now: the others
 * were told of an address at which nobody will be. That round is none. */
TEST_LOOP(test_rdzv_round_whose_first_node_moved_before_it_heard_is_over, 0, 3)
{
    static const char *const from[] = {"10.0.0.77", "10.0.0.7", "10.0.0.77"};
    (void)run_two_at("10.0.0.7", "10.0.0.8");
    int who = _i == 2; /* the second one may be anywhere */
    closed(who, false);
    joins_from(10, who, from[_i], 4000 + who, NULL);
    if (_i > 0) {
        ck_assert(told(10, "world") && !told(0, "stop") && !told(1, "stop"));
        ck_assert_str_eq(placed[10].master_addr, "10.0.0.7");
        return;
    }
    ck_assert(told(1, "stop") && !told(10, "world"));
    ready(1, 1);
    ready(10, 1);
    ck_assert_int_eq(placed[1].round, 2);
    ck_assert_int_eq(placed[1].restarts, 0);
    ck_assert_str_eq(placed[1].master_addr, "10.0.0.77");
}

/* -- leases ---------------------------------------------------------------- */

/* The server is its launcher's child: that one is frozen, no more. What served
 * it is there when it is thawed, and knows that nobody took its place. */
TEST(test_rdzv_frozen_host_finds_its_server_again)
{
    struct msg m = make_join(0);
    m.join.nodes_min = m.join.nodes_max = m.join.hosts = 1;
    say(0, &m);
    ck_assert(told(0, "world"));
    struct msg_world world = placed[0];
    now_us += 100 * HEARTBEAT;
    tick(0);
    ck_assert(noted("lost"));
    ck_assert_int_eq(rdzv_nodes(rdzv), 0);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 1);
    m = make_rejoin(0, 1, MSG_STATE_RUNNING);
    m.join.nodes_min = m.join.nodes_max = m.join.hosts = 1;
    msg_set(m.join.instance, world.instance);
    say(1, &m);
    beat_of(1, 1, -1, 1);
    ready(1, 1);
    beat_of(1, 2, -1, 1); /* it is granted a lease before its workers start */
    ck_assert(told(1, "world"));
    ck_assert_int_eq(placed[1].round, 2);
    /* One that leaves does not come back. */
    leave(1, false);
    ready(1, 2);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
}

TEST(test_rdzv_own_lag_is_nobodys_fault)
{
    run_two(1, 3);
    now_us += 10 * HEARTBEAT;
    tick(10 * HEARTBEAT);
    ck_assert_str_eq(notes, "");
    now_us += HEARTBEAT + MONO_MS;
    tick(0);
    ck_assert(noted("lost"));
}

/* A beat that came before the server looked at its clock is no more than a
 * lease: its node may be dead for as long as the server stood still. */
TEST(test_rdzv_lag_adds_nothing_to_a_lease_that_has_just_begun)
{
    run_two(1, 3);
    now_us += 1000 * HEARTBEAT;
    beat_of(0, 1, -1, 1);
    beat_of(1, 1, -1, 1);
    tick(1000 * HEARTBEAT);
    now_us += HEARTBEAT + MONO_MS;
    tick(0);
    ck_assert(noted("lost"));
}

/* -- workers that stand still ---------------------------------------------- */

static void stands_beat_in(
    int64_t round, int who, int64_t seq, bool asks, const char *stands)
{
    struct msg m = {.kind = MSG_KIND_beat,
                    .beat = {.seq = seq, .heard = seq - 1, .round = round}};
    m.beat.asks = asks;
    msg_set(m.beat.stands, stands);
    say(who, &m);
}

static void stands_beat_of(int who, int64_t seq, bool asks, const char *stands)
{
    stands_beat_in(1, who, seq, asks, stands);
}

/* All nodes of the round hear of the question; each one that begins is a new
 * one, and no other server's, which had another term. */
TEST(test_rdzv_lease_passes_on_that_a_node_asks)
{
    run_two(1, 3);
    stands_beat_of(1, 4, false, "");
    ck_assert_int_eq(granted[1].look, 0);
    for (int i = 1; i <= 2; i++) {
        stands_beat_of(0, 2 + 3 * i, true, "");
        stands_beat_of(1, 3 + 3 * i, false, "");
        ck_assert_int_eq(granted[0].look, 2999999 + i); /* of term 1 */
        ck_assert_int_eq(granted[1].look, 2999999 + i);
        stands_beat_of(0, 3 + 3 * i, false, "");
        ck_assert_int_eq(granted[0].look, 0);
    }
}

/* However many nodes tell it, and until the last one does not any more. */
TEST(test_rdzv_ranks_that_stand_still_are_told_once)
{
    run_two(1, 3);
    stands_beat_of(0, 4, true, "rank 1 sleeps");
    ck_assert(noted("stands"));
    stands_beat_of(1, 4, false, "rank 1 sleeps");
    ck_assert(!noted("stands"));
    stands_beat_of(0, 5, true, "rank 1 sleeps");
    ck_assert(!noted("stands"));
    stands_beat_of(0, 6, false, "");
    ck_assert(!noted("goes_on"));
    stands_beat_of(1, 5, false, "");
    ck_assert(noted("goes_on"));
}

/* What is told of another round says nothing, and the next round begins anew.
 */
TEST(test_rdzv_ranks_that_stand_still_are_of_their_round)
{
    run_two(1, 3);
    stands_beat_in(2, 0, 4, true, "rank 1 sleeps");
    ck_assert(!noted("stands"));
    ck_assert_int_eq(granted[0].look, 0);
    stands_beat_of(0, 5, true, "rank 1 sleeps");
    ck_assert(noted("stands"));
    failed(1, 1, 9, 0);
    both_ready(1);
    stands_beat_in(2, 0, 6, true, "rank 0 sleeps");
    ck_assert(noted("stands"));
}

HAND_SUITE("rdzv_lease")
