/* links: tests/unit/voter_hand tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * Runs that another server has (serves, moved), and farewells,
 * which prove that a node is dead and tell what it had accepted.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/voter_hand.h"

#define OTHER            20 /* a connection that joins nothing */
#define THERE            "10.0.0.7:29600"
#define ANOTHER_INSTANCE "77777777777777777777777777777777"

static char instance[33];
static int64_t age_ms; /* of that, where it is served; 0 when a test begins */
static int teller;     /* who says so; OTHER when a test begins */

static void serves(int64_t epoch, const char *addr)
{
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.run, "r");
    msg_set(m.serves.instance, instance);
    m.serves.epoch = epoch;
    msg_set(m.serves.epoch_id, ELSEWHERE);
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
 * that epoch. */
static void served_there(int64_t epoch)
{
    round_and_instance(3, 2, 3);
    serve(2);
    serves(epoch, THERE);
}

/* -- serves, moved --------------------------------------------------------- */

START_TEST(test_moved_node_that_comes_is_sent_on)
{
    served_there(4);
    ck_assert_str_eq(said, "");
    ck_assert(noted("moved"));
    come(4);
    ck_assert_int_eq(last[4].kind, MSG_KIND_moved);
    ck_assert_str_eq(last[4].moved.addr, THERE);
    ck_assert_int_eq(last[4].moved.epoch, 4);
    ck_assert(msg_same_instance(last[4].moved.instance, instance));
    ck_assert(told(4, "drop"));
    serves(4, THERE);
    ck_assert(!noted("moved")); /* said once */
}
END_TEST

/* Who was there, and comes here, did not find it: so it is not known any more
 * where the run is, */
START_TEST(test_moved_node_that_was_there_is_not_sent_back)
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
END_TEST

/* ... also to newcomers, until it is said again. */
START_TEST(test_moved_is_forgotten_once_a_node_that_was_there_comes)
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
    ck_assert((last[1].kind == MSG_KIND_moved) == (_i == 1 || _i == 3));
    breaks(1);
    come(4);
    ck_assert((last[4].kind == MSG_KIND_moved) == (_i > 0));
    voters[4].here = false;
    serves(2, THERE);
    come(5);
    ck_assert_int_eq(last[5].kind, MSG_KIND_moved);
}
END_TEST

START_TEST(test_moved_is_forgotten_with_its_connection)
{
    served_there(4);
    closed(OTHER, false);
    come(4);
    ck_assert(!told(4, "moved"));
}
END_TEST

/* For 3 s after it was said last. */
START_TEST(test_moved_is_forgotten_after_a_silence)
{
    served_there(4);
    now_us += 3 * MONO_S - 1;
    come(4);
    ck_assert(told(4, "moved"));
    now_us += 1;
    voters[5].here = false;
    come(5);
    ck_assert(!told(5, "moved"));
}
END_TEST

START_TEST(test_moved_sends_on_who_waits)
{
    round_and_instance(3, 2, 3);
    serve(2);
    like.last_call_ms = 60000;
    come_all(4, 5);
    if (_i == 1)
        come(0);
    serves(4, THERE);
    ck_assert(told(4, "moved") && told(4, "drop"));
    ck_assert(told(5, "moved") && told(5, "drop"));
    ck_assert(told(0, "moved") == (_i == 1));
    all_dropped();
}
END_TEST

/* Whoever says so: it is here, and half of the voters vouch for that. */
START_TEST(test_moved_is_not_believed_of_a_run_that_runs_here)
{
    round_and_instance(3, 2, 3);
    serves(900, THERE);
    ck_assert_str_eq(said, "");
    come(4);
    ck_assert(!told(4, "moved"));
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}
END_TEST

/* It was begun beside an older instance that went on: it gives way, whichever
 * had more servers. Where anybody may join, only while it is young. */
START_TEST(test_moved_instance_that_was_begun_beside_gives_way)
{
    bool gives_way = _i != 3;
    strangers_may_join = _i >= 2;
    round_and_instance(3, 2, 3);
    msg_set(instance, ANOTHER_INSTANCE);
    if (_i % 2 == 1)
        goes_on(301 * MONO_S);
    age_ms = 600000;
    serves(1, THERE);
    ck_assert(told(0, "moved") == gives_way);
    ck_assert(told(2, "drop") == gives_way);
    all_dropped();
}
END_TEST

/* The same if one of its own nodes passes it on. */
START_TEST(test_moved_is_passed_on_by_a_node)
{
    round_and_instance(3, 2, 3);
    msg_set(instance, ANOTHER_INSTANCE);
    age_ms = 600000;
    teller = 1;
    serves(1, THERE);
    for (int i = 0; i < 3; i++) {
        ck_assert(told(i, "moved") && told(i, "drop"));
        ck_assert_str_eq(last[i].moved.addr, THERE);
    }
    all_dropped();
}
END_TEST

/* What another version says is not read, and its node is no more here. */
START_TEST(test_moved_of_another_version_closes_the_connection)
{
    struct msg m = {.kind = MSG_KIND_serves};
    round_and_instance(3, 2, 3);
    m.serves.version = MSG_VERSION + 1;
    say(1, &m);
    ck_assert(told(1, "drop") && noted("refused"));
}
END_TEST

/* The older one stays, however many servers the younger one has had. Who says
 * that the younger one is served elsewhere is told. */
START_TEST(test_moved_older_instance_does_not_give_way)
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
    ck_assert_str_eq(said, _i == 0 ? "20:moved " : "");
    if (_i == 0) {
        ck_assert_str_eq(last[OTHER].moved.addr, "");
        ck_assert(msg_same_instance(last[OTHER].moved.instance,
                                    voters[0].holds.instance));
        ck_assert_int_ge(last[OTHER].moved.instance_ms, 10000);
    }
    if (_i == 1)
        come_all(1, 2);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}
END_TEST

/* Of two that are told of the older one, by whoever it is told first. */
START_TEST(test_moved_of_two_instances_the_older_one_is_believed)
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
    ck_assert_str_eq(said, _i == 0 ? "20:moved " : "");
    if (_i == 0)
        ck_assert_str_eq(last[OTHER].moved.addr, THERE);
    come(4);
    ck_assert_int_eq(last[4].kind, MSG_KIND_moved);
    ck_assert_str_eq(last[4].moved.addr, _i == 0 ? THERE : "10.0.0.8:29600");
    ck_assert(
        msg_same_instance(last[4].moved.instance, _i == 0 ? first : instance));
}
END_TEST

/* A node of a younger instance comes, which promised more there: that says
 * nothing here. If it cannot tell where it promised, this server begins a
 * higher epoch, and all come again. */
START_TEST(test_moved_promise_of_a_younger_instance_says_nothing_here)
{
    round_and_instance(3, 2, 3);
    struct msg m = voter_join(4);
    msg_set(m.join.instance, ANOTHER_INSTANCE);
    m.join.instance_ms = 1;
    m.join.round = 3;
    m.join.group_rank = 0;
    m.join.state = MSG_STATE_RUNNING;
    m.join.lease_ms = 500;
    if (_i == 2) /* it has accepted its first round, and was not told to go */
        m = voter_join(4);
    m.join.epoch = 7;
    msg_set(m.join.epoch_id, ELSEWHERE);
    if (_i != 1)
        msg_set(m.join.epoch_of, ANOTHER_INSTANCE);
    say(4, &m);
    ck_assert(told(4, "office") == (_i != 1));
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
END_TEST

/* They do not any more. */
START_TEST(test_moved_is_believed_by_who_lost_the_majority)
{
    round_and_instance(3, 2, 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    serves(900, THERE);
    ck_assert(told(0, "moved"));
    voters[0].here = false;
}
END_TEST

/* Found by the simulator: it was stopped while an operator gave up the one that
 * died here; it acted by that one's vote alone when it went on. */
START_TEST(test_moved_is_believed_by_who_has_votes_of_the_dead_alone)
{
    int64_t before = round_and_instance(2, 1, 2);
    dies(0);
    voters[1].silent = _i == 0;
    now_us += HEARTBEAT + MONO_MS;
    tick(HEARTBEAT);
    if (_i == 1)
        goes_on(HEARTBEAT);
    serves(1002, THERE);
    ck_assert(told(1, "moved") == (_i == 0));
    if (_i == 0)
        all_dropped();
    else
        ck_assert_int_gt(newest_round(), before);
}
END_TEST

START_TEST(test_moved_of_a_lower_epoch_is_not_believed)
{
    served_there(4);
    serves(3, "10.0.0.8:29600");
    come(4);
    ck_assert_str_eq(last[4].moved.addr, THERE);
    serves(5, "10.0.0.8:29600");
    voters[4].here = false;
    come(4);
    ck_assert_str_eq(last[4].moved.addr, "10.0.0.8:29600");
}
END_TEST

/* A member that promised a later server knows better. */
START_TEST(test_moved_member_that_promised_more_is_not_sent)
{
    served_there(4);
    voters[0].promised.count = 6;
    come(1);
    ck_assert_int_eq(last[1].kind, MSG_KIND_moved);
    voters[1].here = false;
    come(0);
    ck_assert_int_ne(last[0].kind, MSG_KIND_moved);
}
END_TEST

START_TEST(test_moved_table_has_an_end)
{
    round_and_instance(3, 2, 3);
    serve(2);
    struct msg m = {.kind = MSG_KIND_serves};
    m.serves.version = MSG_VERSION;
    m.serves.epoch = 1;
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
END_TEST

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
    ck_assert(told(conn, "moved"));
    ck_assert_str_eq(last[conn].moved.addr,
                     last[conn].moved.epoch == 4 ? THERE : "");
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
START_TEST(test_look_is_answered_by_a_leader)
{
    round_and_instance(3, 2, 3);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.epoch, 1);
    ck_assert(msg_same_instance(last[OTHER].moved.instance, instance));
    ck_assert_int_ne(strcmp(last[OTHER].moved.instance, instance), 0);
    ck_assert_int_eq(rdzv_nodes(rdzv), 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.epoch, 0);
}
END_TEST

/* A server that knows nothing of the run, that seeks a majority, that is told
 * of it elsewhere. */
START_TEST(test_look_is_answered_by_who_does_not_lead)
{
    round_and_instance(3, 2, 3);
    serve(2);
    if (_i == 1)
        come(0);
    if (_i == 2)
        serves(4, THERE);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.epoch, _i == 2 ? 4 : 0);
    ck_assert_int_eq(rdzv_nodes(rdzv), _i == 1);
}
END_TEST

/* How many with a vote reach this server, for all of them; as long as they ask.
 */
START_TEST(test_look_counts_who_looks)
{
    round_and_instance(3, 2, 3);
    serve(2);
    for (int i = 0; i < 3; i++) {
        look(OTHER + i, true);
        ck_assert_int_eq(last[OTHER + i].moved.reached, i + 1);
    }
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.reached, 3);
    look(OTHER + 3, false);
    ck_assert_int_eq(last[OTHER + 3].moved.reached, 3);
    closed(OTHER + 1, false);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.reached, 2);
    now_us += 2 * MONO_S;
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.reached, 1); /* the other is silent */
}
END_TEST

/* Whatever run it asks for. */
START_TEST(test_look_of_one_connection_counts_once)
{
    struct msg m = {.kind = MSG_KIND_serves};
    round_and_instance(3, 2, 3);
    m.serves.version = MSG_VERSION;
    msg_set(m.serves.voter, "0123456789abcdef");
    for (int i = 0; i < 200; i++) {
        (void)snprintf(m.serves.run, sizeof(m.serves.run), "run%d", i);
        say(OTHER, &m);
        ck_assert_int_eq(last[OTHER].moved.reached, 1);
    }
    ck_assert_int_eq(last[OTHER].moved.epoch, 0);
    look(OTHER, true);
    ck_assert_int_eq(last[OTHER].moved.reached, 1);
}
END_TEST

/* Two places of its list lead here: else a server at both an endpoint and a
 * voter's address would seem to be reached by more than one that most reach. */
START_TEST(test_look_of_one_voter_at_two_places_counts_once)
{
    static const char voter[] = "0123456789abcdef";
    round_and_instance(3, 2, 3);
    serve(2);
    look_of(voter, OTHER);
    look_of(voter, OTHER + 1);
    ck_assert_int_eq(last[OTHER + 1].moved.reached, 1);
    look(OTHER + 2, true);
    ck_assert_int_eq(last[OTHER + 2].moved.reached, 2);
    closed(OTHER, false);
    look_of(voter, OTHER + 1);
    ck_assert_int_eq(last[OTHER + 1].moved.reached, 2);
}
END_TEST

/* Half of an elastic job died, and newcomers come here before the others do,
 * which look for a leader so far: no run is founded beside theirs while they
 * look. */
START_TEST(test_look_of_a_voter_puts_off_a_first_round)
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
END_TEST

/* -- farewells ------------------------------------------------------------- */

static void say_farewell(int i)
{
    struct msg m = last_word(i);
    say(GUARDS, &m);
}

/* AUTHORITY 2.4b. The lost member's lease is not waited for; but a connection
 * that ends, however, is no farewell. */
START_TEST(test_farewell_saves_the_wait)
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
END_TEST

/* It is known already when the members come. */
START_TEST(test_farewell_is_kept_for_the_members)
{
    int64_t before = round_and_instance(3, 2, 3);
    serve(2);
    say_farewell(2);
    come_all(0, 1);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}
END_TEST

/* Of another instance, of another run or version, or of one that never voted it
 * strikes nobody. */
START_TEST(test_farewell_of_something_else_says_nothing)
{
    int64_t before = round_and_instance(2, 1, 2);
    struct msg m = last_word(0);
    serve(2);
    if (_i == 0)
        msg_set_name(m.farewell.instance, ANOTHER_INSTANCE);
    else if (_i == 1)
        msg_set(m.farewell.run, "another");
    else if (_i == 2)
        m.farewell.version++;
    else
        m.farewell.epoch = 0;
    say(GUARDS, &m);
    come(1);
    goes_on(HEARTBEAT / 2);
    ck_assert_int_eq(voters[1].promised.count, 1);
    ck_assert_int_eq(newest_round(), before);
}
END_TEST

/* AUTHORITY 2.2, 2.6. Two voters, and the serving host is dead: one is more
 * than half of the living. Whether it runs its workers, stops them, or its
 * lease is over; whether it comes before the farewell or after. */
START_TEST(test_farewell_lets_one_of_two_go_on)
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
END_TEST

/* AUTHORITY 2.2, its bracket (schedule s3): the dead one had accepted a round
 * that may be in force or not, and every voter of the round before is struck:
 * nobody is elected. */
START_TEST(test_farewell_of_all_that_voted_before_elects_nobody)
{
    round_and_instance(2, 1, 2);
    struct msg m = last_word(0);
    serve(2);
    m.farewell.round++;
    msg_set(m.farewell.voters, voter_ids("01"));
    msg_set(m.farewell.before, voter_ids("0"));
    say(GUARDS, &m);
    voters[1].runs = false;
    come(1);
    goes_on(5 * HEARTBEAT);
    ck_assert_int_eq(voters[1].promised.count, 1);
    ck_assert_int_eq(running(), 0);
}
END_TEST

/* AUTHORITY 2.6: what it had accepted counts as told. It alone had heard of the
 * round of 0, 1 and 2, which its leader may have put in force: 1 and 2 are
 * asked for it, not 1 alone. */
START_TEST(test_farewell_tells_of_a_round_that_others_do_not_know)
{
    round_and_instance(2, 1, 3);
    struct msg m = last_word(0);
    serve(2);
    m.farewell.round++;
    m.farewell.group_world = 3;
    msg_set(m.farewell.voters, voter_ids("012"));
    msg_set(m.farewell.before, voter_ids("01"));
    say(GUARDS, &m);
    come(1);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[1].promised.count, 1); /* 1 of 2 */
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}
END_TEST

/* AUTHORITY 2.6 (schedule s4): the dead one had promised a later server, which
 * need not meet half of fewer voters: this one is in office no more. */
START_TEST(test_farewell_of_a_higher_promise_ends_the_office)
{
    round_and_instance(3, 1, 3);
    voters[0].silent = voters[1].silent = true;
    struct msg m = last_word(2);
    m.farewell.epoch += 3;
    msg_set(m.farewell.epoch_id, ELSEWHERE);
    say(GUARDS, &m);
    ck_assert(noted("outdated"));
    ck_assert(told(0, "drop") && told(1, "drop"));
}
END_TEST

/* AUTHORITY 2.3 (schedule s15): an accept of a voter that is struck since
 * counts no more. */
START_TEST(test_farewell_takes_an_accept_back)
{
    propose_to_three(3);
    accepts(0, 1);
    accepts(1, 1);
    struct msg m = make_farewell(1);
    m.farewell.epoch = 1;
    msg_set(m.farewell.epoch_id, server_id);
    say(GUARDS, &m);
    accepts(2, 1);
    ck_assert(!noted("sealed"));
}
END_TEST

/* An end that it held is said again by the next server. */
START_TEST(test_farewell_tells_of_the_end)
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
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_moved_node_that_comes_is_sent_on, 1},
        {test_moved_node_that_was_there_is_not_sent_back, 1},
        {test_moved_is_forgotten_once_a_node_that_was_there_comes, 4},
        {test_moved_is_forgotten_with_its_connection, 1},
        {test_moved_is_forgotten_after_a_silence, 1},
        {test_moved_sends_on_who_waits, 2},
        {test_moved_is_not_believed_of_a_run_that_runs_here, 1},
        {test_moved_instance_that_was_begun_beside_gives_way, 4},
        {test_moved_is_passed_on_by_a_node, 1},
        {test_moved_of_another_version_closes_the_connection, 1},
        {test_moved_older_instance_does_not_give_way, 2},
        {test_moved_of_two_instances_the_older_one_is_believed, 2},
        {test_moved_promise_of_a_younger_instance_says_nothing_here, 3},
        {test_moved_is_believed_by_who_lost_the_majority, 1},
        {test_moved_is_believed_by_who_has_votes_of_the_dead_alone, 2},
        {test_moved_of_a_lower_epoch_is_not_believed, 1},
        {test_moved_member_that_promised_more_is_not_sent, 1},
        {test_moved_table_has_an_end, 1},
        {test_look_is_answered_by_a_leader, 1},
        {test_look_is_answered_by_who_does_not_lead, 3},
        {test_look_counts_who_looks, 1},
        {test_look_of_one_connection_counts_once, 1},
        {test_look_of_one_voter_at_two_places_counts_once, 1},
        {test_look_of_a_voter_puts_off_a_first_round, 1},
        {test_farewell_saves_the_wait, 2},
        {test_farewell_is_kept_for_the_members, 1},
        {test_farewell_of_something_else_says_nothing, 4},
        {test_farewell_lets_one_of_two_go_on, 6},
        {test_farewell_of_all_that_voted_before_elects_nobody, 1},
        {test_farewell_tells_of_a_round_that_others_do_not_know, 1},
        {test_farewell_of_a_higher_promise_ends_the_office, 1},
        {test_farewell_takes_an_accept_back, 1},
        {test_farewell_tells_of_the_end, 1},
    };
    return hand_main("rdzv_moved", tests, HAND_LEN(tests));
}
