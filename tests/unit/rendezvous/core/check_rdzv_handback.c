/* links: tests/unit/rendezvous/core/{voter_hand,rdzv_hand} */
/* libs: -lcjson */
/*
 * A daemon that is back offers to have a run that is led elsewhere; the leader,
 * a launcher's server, sends all nodes there once all voters reach the daemon.
 */
#include <check.h>
#include <string.h>

#include "tests/unit/rendezvous/core/voter_hand.h"

#define OTHER  27 /* a connection that joins nothing */
#define THERE  "10.0.0.7:29600"
#define DAEMON "00000000000000dd"

/* On `conn`: the run is led elsewhere; or, of a node, `daemon` would have it.
 */
static void serves(int conn, const char *term_id)
{
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.run, "r");
    msg_set(m.serves.instance, voters[0].holds.instance);
    m.serves.term.count = 4;
    msg_set(m.serves.term.id, term_id);
    msg_set(m.serves.addr, THERE);
    say(conn, &m);
}

/* A launcher's server leads three nodes. */
static void lead_three(void)
{
    embedded_server = true;
    round_of(3, 2, 3);
    goes_on(HEARTBEAT);
}

static void is_handed_back(void)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(last[i].kind, MSG_KIND_serves);
        ck_assert_str_eq(last[i].serves.addr, "");
        ck_assert_int_eq(last[i].serves.term.count, voters[i].promised.count);
        ck_assert_str_eq(last[i].serves.term.id, voters[i].promised.id);
    }
    all_dropped();
}

TEST_LOOP(test_handback_is_offered_by_a_daemon_alone, 0, 2)
{
    round_of(3, 2, 3);
    embedded_server = _i == 1;
    serve(2);
    serves(OTHER, ELSEWHERE);
    ck_assert(told(OTHER, "serves") == (_i == 0));
    if (_i == 1)
        return;
    ck_assert_int_eq(last[OTHER].serves.term.count, 0);
    ck_assert_str_eq(last[OTHER].serves.term.id, server_id);
    ck_assert(msg_same_instance(last[OTHER].serves.instance,
                                voters[0].holds.instance));
}

/* Nor by one that leads the run, or may yet. */
TEST(test_handback_is_not_offered_by_who_has_the_run)
{
    round_of(3, 2, 3);
    goes_on(HEARTBEAT);
    serves(OTHER, ELSEWHERE);
    ck_assert(!told(OTHER, "serves"));
}

TEST(test_handback_sends_all_once_all_voters_reach_the_daemon)
{
    lead_three();
    serves(0, DAEMON);
    serves(1, DAEMON);
    serves(1, DAEMON);
    ck_assert(!noted("handed_back"));
    serves(2, "00000000000000de"); /* another one */
    ck_assert(!noted("handed_back"));
    serves(2, DAEMON);
    ck_assert(noted("handed_back"));
    is_handed_back();
}

/* One that the others wait for would lose its place. */
TEST(test_handback_waits_for_a_voter_that_is_away)
{
    lead_three();
    breaks(2);
    serves(0, DAEMON);
    serves(1, DAEMON);
    ck_assert(!noted("handed_back"));
    come(2);
    goes_on(100 * MONO_MS);
    serves(2, DAEMON);
    ck_assert(noted("handed_back"));
}

/* A voter that said farewell is waited for no more; a round that is under way
 * is. */
TEST(test_handback_waits_for_a_round_that_is_under_way)
{
    lead_three();
    serves(0, DAEMON);
    voters[0].silent = true;
    dies(2);
    serves(1, DAEMON);
    ck_assert(!noted("handed_back"));
    voters[0].silent = false;
    breaks(0);
    come(0);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
    serves(1, DAEMON); /* 0 has said so */
    ck_assert(noted("handed_back"));
}

/* A daemon leads: two of them would send the nodes to and fro. */
TEST(test_handback_is_not_between_daemons)
{
    round_of(3, 2, 3);
    goes_on(HEARTBEAT);
    for (int i = 0; i < 3; i++)
        serves(i, DAEMON);
    ck_assert(!noted("handed_back"));
    ck_assert_int_eq(running(), 3);
}

/* The daemon is elected, and no worker stops. */
TEST(test_handback_stops_no_worker)
{
    lead_three();
    int64_t round = newest_round();
    for (int i = 0; i < 3; i++)
        serves(i, DAEMON);
    embedded_server = false;
    serve(2);
    come_all(0, 2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_eq(newest_round(), round);
    ck_assert_str_eq(voters[1].promised.id, server_id);
}

HAND_SUITE("rdzv_handback")
