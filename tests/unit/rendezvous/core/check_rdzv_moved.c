/* links: tests/unit/rendezvous/core/{voter_hand,rdzv_hand} */
/* libs: -lcjson */
/*
 * Runs that another server has (serves, moved), and farewells,
 * which prove that a node is dead and tell what it had accepted.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rendezvous/core/voter_hand.h"

#define OTHER            27 /* a connection that joins nothing */
#define THERE            "10.0.0.7:29600"
#define ANOTHER_INSTANCE "77777777777777777777777777777777"

static char instance[33];
static int64_t age_ms; /* of that, where it is served; 0 when a test begins */
static int teller;     /* who says so; OTHER when a test begins */

static void serves(int64_t term, const char *addr)
{
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.run, "r");
    msg_set(m.serves.instance, instance);
    m.serves.term.count = term;
    msg_set(m.serves.term.id, ELSEWHERE);
    msg_set(m.serves.addr, addr);
    m.serves.instance_ms = age_ms;
    say(teller, &m);
}

static int64_t round_and_instance(int n, int min, int max)
{
    int64_t round = round_of(n, min, max);
    age_ms = 0;
    teller = OTHER;
    msg_set(instance, voters[0].holds.instance);
    return round;
}

/* Three nodes run; a new server here is told that the run is served there, in
 * that term. */
static void served_there(int64_t term)
{
    round_and_instance(3, 2, 3);
    serve(2);
    serves(term, THERE);
}

/* -- serves, moved --------------------------------------------------------- */

TEST(test_moved_node_that_comes_is_sent_on)
{
    served_there(4);
    ck_assert_str_eq(said, "27:serves "); /* that it would have the run */
    ck_assert(noted("moved"));
    come(4);
    ck_assert_int_eq(last[4].kind, MSG_KIND_serves);
    ck_assert_str_eq(last[4].serves.addr, THERE);
    ck_assert_int_eq(last[4].serves.term.count, 4);
    ck_assert(msg_same_instance(last[4].serves.instance, instance));
    ck_assert(told(4, "drop"));
    serves(4, THERE);
    ck_assert(!noted("moved")); /* said once */
}

/* Who was there, and comes here, did not find it: so it is not known any more
 * where the run is, */
TEST(test_moved_node_that_was_there_is_not_sent_back)
{
    round_and_instance(3, 2, 3);
    for (int i = 0; i < 3; i++)
        promised_elsewhere(i, 1);
    serve(2);
    serves(1, THERE);
    come_all(0, 1);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 2);
    ck_assert_int_ge(running(), 2);
}

/* ... also to newcomers, until it is said again. */
TEST_LOOP(test_moved_is_forgotten_once_a_node_that_was_there_comes, 0, 4)
{
    round_and_instance(3, 2, 3);
    promised_elsewhere(1, _i == 0 ? 2 : 1);
    serve(2);
    serves(2, THERE);
    if (_i >= 2) { /* a member of another instance does not know */
        msg_set(voters[1].holds.instance, ANOTHER_INSTANCE);
        voters[1].promised.count = 5;
        age_ms = _i == 2 ? 500 : 5000; /* of the other one: 1 s */
    }
    if (_i >= 2)
        serves(2, THERE);
    come(1); /* if its instance is the younger one it is to give that up */
    ck_assert((last[1].kind == MSG_KIND_serves) == (_i == 1 || _i == 3));
    breaks(1);
    come(4);
    ck_assert((last[4].kind == MSG_KIND_serves) == (_i > 0));
    voters[4].here = false;
    serves(2, THERE);
    come(5);
    ck_assert_int_eq(last[5].kind, MSG_KIND_serves);
}

TEST(test_moved_is_forgotten_with_its_connection)
{
    served_there(4);
    closed(OTHER, false);
    come(4);
    ck_assert(!told(4, "serves"));
}

/* For 3 s after it was said last. */
TEST(test_moved_is_forgotten_after_a_silence)
{
    served_there(4);
    now_us += 3 * MONO_S - 1;
    come(4);
    ck_assert(told(4, "serves"));
    now_us += 1;
    voters[5].here = false;
    come(5);
    ck_assert(!told(5, "serves"));
}

TEST_LOOP(test_moved_sends_on_who_waits, 0, 2)
{
    round_and_instance(3, 2, 3);
    serve(2);
    like.last_call_ms = 60000;
    come_all(4, 5);
    if (_i == 1)
        come(0);
    serves(4, THERE);
    ck_assert(told(4, "serves") && told(4, "drop"));
    ck_assert(told(5, "serves") && told(5, "drop"));
    ck_assert(told(0, "serves") == (_i == 1));
    all_dropped();
}

/* Whoever says so: it is here, and half of the voters vouch for that. */
TEST(test_moved_is_not_believed_of_a_run_that_runs_here)
{
    round_and_instance(3, 1, 3);
    serves(900, THERE);
    ck_assert_str_eq(said, "");
    come(4);
    ck_assert(!told(4, "serves"));
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}

/* It was begun beside an older instance that went on: it gives way, whichever
 * had more servers. Where anybody may join, only while it is young. */
TEST_LOOP(test_moved_instance_that_was_begun_beside_gives_way, 0, 4)
{
    bool gives_way = _i != 3;
    strangers_may_join = _i >= 2;
    round_and_instance(3, 2, 3);
    msg_set(instance, ANOTHER_INSTANCE);
    if (_i % 2 == 1)
        goes_on(301 * MONO_S);
    age_ms = 600000;
    serves(1, THERE);
    ck_assert(told(0, "serves") == gives_way);
    ck_assert(told(2, "drop") == gives_way);
    all_dropped();
}

/* The same if one of its own nodes passes it on. */
TEST(test_moved_is_passed_on_by_a_node)
{
    round_and_instance(3, 2, 3);
    msg_set(instance, ANOTHER_INSTANCE);
    age_ms = 600000;
    teller = 1;
    serves(1, THERE);
    for (int i = 0; i < 3; i++) {
        ck_assert(told(i, "serves") && told(i, "drop"));
        ck_assert_str_eq(last[i].serves.addr, THERE);
    }
    all_dropped();
}

/* What another version says is not read, and its node is no more here. */
TEST(test_moved_of_another_version_closes_the_connection)
{
    struct msg m = {.kind = MSG_KIND_serves};
    round_and_instance(3, 2, 3);
    m.serves.version = MSG_VERSION + 1;
    say(1, &m);
    ck_assert(told(1, "drop") && noted("refused"));
}

/* The older one stays, however many servers the younger one has had. Who says
 * that the younger one is served elsewhere is told. */
TEST_LOOP(test_moved_older_instance_does_not_give_way, 0, 2)
{
    round_and_instance(3, 2, 3);
    goes_on(10 * MONO_S);
    msg_set(instance, ANOTHER_INSTANCE);
    age_ms = _i == 0 ? 9000 : 500; /* what members tell is 1 s */
    if (_i == 1) {                 /* nor while its voters come to a server */
        serve(2);
        come(0);
    }
    serves(900, THERE);
    ck_assert_str_eq(said, _i == 0 ? "27:serves " : "");
    if (_i == 0) {
        ck_assert_str_eq(last[OTHER].serves.addr, "");
        ck_assert(msg_same_instance(last[OTHER].serves.instance,
                                    voters[0].holds.instance));
        ck_assert_int_ge(last[OTHER].serves.instance_ms, 10000);
    }
    if (_i == 1)
        come_all(1, 2);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}

/* Of two that are told of the older one, by whoever it is told first. */
TEST_LOOP(test_moved_of_two_instances_the_older_one_is_believed, 0, 2)
{
    char first[33];
    round_and_instance(3, 2, 3);
    serve(2);
    msg_set(first, instance);
    age_ms = _i == 0 ? 5000 : 3000;
    serves(_i == 0 ? 2 : 9, THERE);
    msg_set(instance, ANOTHER_INSTANCE);
    age_ms = 4000;
    serves(4, "10.0.0.8:29600");
    ck_assert_str_eq(said, "27:serves "); /* _i 1: that it would have the run */
    ck_assert_str_eq(last[OTHER].serves.addr, _i == 0 ? THERE : "");
    come(4);
    ck_assert_int_eq(last[4].kind, MSG_KIND_serves);
    ck_assert_str_eq(last[4].serves.addr, _i == 0 ? THERE : "10.0.0.8:29600");
    ck_assert(
        msg_same_instance(last[4].serves.instance, _i == 0 ? first : instance));
}

/* A node of a younger instance comes, which promised more there: that says
 * nothing here. If it cannot tell where it promised, this server begins a
 * higher term, and all come again. */
TEST_LOOP(test_moved_promise_of_a_younger_instance_says_nothing_here, 0, 3)
{
    round_and_instance(3, 1, 3);
    struct msg m = voter_join(4);
    msg_set(m.join.instance, ANOTHER_INSTANCE);
    m.join.instance_ms = 1;
    m.join.round = 3;
    m.join.group_rank = 0;
    m.join.state = MSG_STATE_RUNNING;
    m.join.lease_ms = 500;
    if (_i == 2) /* it has accepted its first round, and was not told to go */
        m = voter_join(4);
    m.join.term.count = 7;
    msg_set(m.join.term.id, ELSEWHERE);
    if (_i != 1)
        msg_set(m.join.term_of, ANOTHER_INSTANCE);
    say(4, &m);
    ck_assert(told(4, "prepare") == (_i != 1));
    ck_assert(told(4, "stop") == (_i == 0));
    beat_of(4, 1, -1, 3);
    ck_assert(told(0, "drop") == (_i == 1));
    if (_i == 1) {
        all_dropped();
        return;
    }
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 1);
    ck_assert_int_eq(running(), 3);
}

/* They do not any more. */
TEST(test_moved_is_believed_by_who_lost_the_majority)
{
    round_and_instance(3, 2, 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    serves(900, THERE);
    ck_assert(told(0, "serves"));
    voters[0].here = false;
}

/* Found by the simulator: it was stopped while an operator gave up the one that
 * died here; it acted by that one's vote alone when it went on. */
TEST_LOOP(test_moved_is_believed_by_who_has_votes_of_the_dead_alone, 0, 2)
{
    int64_t before = round_and_instance(2, 1, 2);
    dies(0);
    voters[1].silent = _i == 0;
    now_us += HEARTBEAT + MONO_MS;
    tick(HEARTBEAT);
    if (_i == 1)
        goes_on(HEARTBEAT);
    serves(1002, THERE);
    ck_assert(told(1, "serves") == (_i == 0));
    if (_i == 0)
        all_dropped();
    else
        ck_assert_int_gt(newest_round(), before);
}

TEST(test_moved_of_a_lower_term_is_not_believed)
{
    served_there(4);
    serves(3, "10.0.0.8:29600");
    come(4);
    ck_assert_str_eq(last[4].serves.addr, THERE);
    serves(5, "10.0.0.8:29600");
    voters[4].here = false;
    come(4);
    ck_assert_str_eq(last[4].serves.addr, "10.0.0.8:29600");
}

/* A member that promised a later server knows better. */
TEST(test_moved_member_that_promised_more_is_not_sent)
{
    served_there(4);
    voters[0].promised.count = 6;
    come(1);
    ck_assert_int_eq(last[1].kind, MSG_KIND_serves);
    voters[1].here = false;
    come(0);
    ck_assert_int_ne(last[0].kind, MSG_KIND_serves);
}

TEST(test_moved_table_has_an_end)
{
    round_and_instance(3, 2, 3);
    serve(2);
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    m.serves.term.count = 1;
    msg_set(m.serves.addr, "10.0.0.7:1");
    for (int i = 0; i < 200; i++) {
        (void)snprintf(m.serves.run, sizeof(m.serves.run), "run%d", i);
        say(OTHER, &m);
        ck_assert(noted("moved") == (i < 64));
    }
    m.serves.version = MSG_VERSION + 1;
    say(OTHER, &m);
    ck_assert(told(OTHER, "drop"));
}

/* -- who asks -------------------------------------------------------------- */

/* On connection `conn` this voter, or one that is none (""), asks where the run
 * is. */
static void look_of(const char *voter, int conn)
{
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.voter, voter);
    msg_set(m.serves.run, "r");
    say(conn, &m);
    ck_assert(told(conn, "serves"));
    ck_assert_str_eq(last[conn].serves.addr,
                     last[conn].serves.term.count == 4 ? THERE : "");
}

/* Another voter on each connection. */
static void look(int conn, bool votes)
{
    char voter[MSG_VOTER_LEN + 1];
    (void)snprintf(voter, sizeof(voter), "%016x", (unsigned)conn);
    look_of(votes ? voter : "", conn);
}

/* It leads as long as half of the voters vouch for it; to ask is not to join.
 */
TEST(test_look_is_answered_by_a_leader)
{
    round_and_instance(3, 2, 3);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.term.count, 1);
    ck_assert(msg_same_instance(last[OTHER].serves.instance, instance));
    ck_assert_int_ne(strcmp(last[OTHER].serves.instance, instance), 0);
    ck_assert_int_eq(rdzv_nodes(rdzv), 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.term.count, 0);
}

/* A server that knows nothing of the run, that seeks a majority, that is told
 * of it elsewhere. */
TEST_LOOP(test_look_is_answered_by_who_does_not_lead, 0, 3)
{
    round_and_instance(3, 2, 3);
    serve(2);
    if (_i == 1)
        come(0);
    if (_i == 2)
        serves(4, THERE);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.term.count, _i == 2 ? 4 : 0);
    ck_assert_int_eq(rdzv_nodes(rdzv), _i == 1);
}

/* How many with a vote reach this server, for all of them; as long as they ask.
 */
TEST(test_look_counts_who_looks)
{
    round_and_instance(3, 2, 3);
    serve(2);
    for (int i = 0; i < 3; i++) {
        look(OTHER + i, true);
        ck_assert_int_eq(last[OTHER + i].serves.reached, i + 1);
    }
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.reached, 3);
    look(OTHER + 3, false);
    ck_assert_int_eq(last[OTHER + 3].serves.reached, 3);
    closed(OTHER + 1, false);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.reached, 2);
    now_us += 2 * MONO_S;
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.reached, 1); /* the other is silent */
}

/* Whatever run it asks for. */
TEST(test_look_of_one_connection_counts_once)
{
    struct msg m = {.kind = MSG_KIND_serves};
    round_and_instance(3, 2, 3);
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.voter, "0123456789abcdef");
    for (int i = 0; i < 200; i++) {
        (void)snprintf(m.serves.run, sizeof(m.serves.run), "run%d", i);
        say(OTHER, &m);
        ck_assert_int_eq(last[OTHER].serves.reached, 1);
    }
    ck_assert_int_eq(last[OTHER].serves.term.count, 0);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].serves.reached, 1);
}

/* Two places of its list lead here: else a server at both an endpoint and a
 * voter's address would seem to be reached by more than one that most reach. */
TEST(test_look_of_one_voter_at_two_places_counts_once)
{
    static const char voter[] = "0123456789abcdef";
    round_and_instance(3, 2, 3);
    serve(2);
    look_of(voter, OTHER);
    look_of(voter, OTHER + 1);
    ck_assert_int_eq(last[OTHER + 1].serves.reached, 1);
    look(OTHER + 2, true);
    ck_assert_int_eq(last[OTHER + 2].serves.reached, 2);
    closed(OTHER, false);
    look_of(voter, OTHER + 1);
    ck_assert_int_eq(last[OTHER + 1].serves.reached, 2);
}

/* Half of an elastic job died, and newcomers come here before the others do,
 * which look for a leader so far: no run is founded beside theirs while they
 * look. */
TEST(test_look_of_a_voter_puts_off_a_first_round)
{
    round_and_instance(3, 1, 3);
    serve(2);
    like.last_call_ms = 300;
    look(OTHER, true);
    come(4);
    for (int i = 0; i < 20; i++) {
        goes_on(100 * MONO_MS);
        look(OTHER, true);
    }
    ck_assert(!voters[4].runs);
    goes_on(3 * MONO_S);
    ck_assert(voters[4].runs);
}

/* -- farewells ------------------------------------------------------------- */

static void say_farewell(int i)
{
    struct msg m = last_word(i);
    say(GUARDS, &m);
}

/* AUTHORITY 2.4b. The lost member's lease is not waited for; but a connection
 * that ends, however, is no farewell. */
TEST_LOOP(test_farewell_saves_the_wait, 0, 2)
{
    int64_t before = round_and_instance(3, 2, 3);
    serve(2);
    come_all(0, 1);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before);
    if (_i == 0)
        dies(2);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + (_i == 0));
}

/* It is known already when the members come. */
TEST(test_farewell_is_kept_for_the_members)
{
    int64_t before = round_and_instance(3, 2, 3);
    serve(2);
    say_farewell(2);
    come_all(0, 1);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}

/* Its workers had ended well, so nobody has to stop. */
TEST_LOOP(test_farewell_of_a_node_that_was_done_ends_no_round, 0, 2)
{
    int64_t before = round_and_instance(3, 2, 3);
    struct msg m = last_word(2);
    serve(2);
    m.vote.done = 1;
    m.vote.round -= _i; /* of an older round it says nothing */
    say(GUARDS, &m);
    come_all(0, 1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + _i);
    ck_assert_int_eq(running(), 2);
}

/* Of another instance, of another run or version, or of one that never voted it
 * strikes nobody. */
TEST_LOOP(test_farewell_of_something_else_says_nothing, 0, 4)
{
    int64_t before = round_and_instance(2, 1, 2);
    struct msg m = last_word(0);
    serve(2);
    if (_i == 0)
        msg_set_name(m.vote.instance, ANOTHER_INSTANCE);
    else if (_i == 1)
        msg_set(m.vote.run, "another");
    else if (_i == 2)
        m.vote.version++;
    else
        m.vote.term.count = 0;
    say(GUARDS, &m);
    come(1);
    goes_on(HEARTBEAT / 2);
    ck_assert_int_eq(voters[1].promised.count, 1);
    ck_assert_int_eq(newest_round(), before);
}

/* AUTHORITY 2.2, 2.6. Two voters, and the serving host is dead: one is more
 * than half of the living. Whether it runs its workers, stops them, or its
 * lease is over; whether it comes before the farewell or after. */
TEST_LOOP(test_farewell_lets_one_of_two_go_on, 0, 6)
{
    int64_t before = round_and_instance(2, 1, 2);
    serve(2);
    if (_i % 3 == 2)
        now_us += 2 * HEARTBEAT;
    voters[0].runs = false;
    voters[1].runs = _i % 3 == 0;
    if (_i >= 3)
        say_farewell(0);
    come(1);
    if (_i < 3) {
        goes_on(HEARTBEAT / 2);
        ck_assert_int_eq(voters[1].promised.count, 1);
        say_farewell(0);
    }
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(voters[1].promised.count, 2);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 1);
}

/* AUTHORITY 2.2, its bracket (schedule s3): the dead one had accepted a round
 * that may be in force or not, and every voter of the round before is struck:
 * nobody is elected. */
TEST(test_farewell_of_all_that_voted_before_elects_nobody)
{
    round_and_instance(2, 1, 2);
    struct msg m = last_word(0);
    serve(2);
    m.vote.round++;
    msg_set(m.vote.voters, voter_ids("01"));
    msg_set(m.vote.before, voter_ids("0"));
    say(GUARDS, &m);
    voters[1].runs = false;
    come(1);
    goes_on(5 * HEARTBEAT);
    ck_assert_int_eq(voters[1].promised.count, 1);
    ck_assert_int_eq(running(), 0);
}

/* AUTHORITY 2.6: what it had accepted counts as told. It alone had heard of the
 * round of 0, 1 and 2, which its leader may have put in force: 1 and 2 are
 * asked for it, not 1 alone. */
TEST(test_farewell_tells_of_a_round_that_others_do_not_know)
{
    round_and_instance(2, 1, 3);
    struct msg m = last_word(0);
    serve(2);
    m.vote.round++;
    m.vote.group_world = 3;
    msg_set(m.vote.voters, voter_ids("012"));
    msg_set(m.vote.before, voter_ids("01"));
    say(GUARDS, &m);
    come(1);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[1].promised.count, 1); /* 1 of 2 */
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}

/* AUTHORITY 2.6 (schedule s4): the dead one had promised a later server, which
 * need not meet half of fewer voters: this one is the leader no more. */
TEST(test_farewell_of_a_higher_promise_deposes_a_leader)
{
    round_and_instance(3, 1, 3);
    voters[0].silent = voters[1].silent = true;
    struct msg m = last_word(2);
    m.vote.term.count += 3;
    msg_set(m.vote.term.id, ELSEWHERE);
    say(GUARDS, &m);
    ck_assert(noted("outdated"));
    ck_assert(told(0, "drop") && told(1, "drop"));
}

/* AUTHORITY 2.3 (schedule s15): an accept of a voter that is struck since
 * counts no more. */
TEST(test_farewell_takes_an_accept_back)
{
    propose_to_three(3);
    accepts(0, 1);
    accepts(1, 1);
    struct msg m = make_farewell(1);
    m.vote.term.count = 1;
    msg_set(m.vote.term.id, server_id);
    say(GUARDS, &m);
    accepts(2, 1);
    ck_assert(!noted("sealed"));
}

/* An end that it held is said again by the next server. */
TEST(test_farewell_tells_of_the_end)
{
    round_and_instance(2, 1, 2);
    was_told_to_end(0, 7);
    struct msg m = last_word(0);
    serve(2);
    say(GUARDS, &m);
    voters[1].runs = false;
    come(1);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(last[1].kind, MSG_KIND_end);
    ck_assert_int_eq(last[1].end.status, 7);
}

HAND_SUITE("rdzv_moved")
