/* links: tests/lib/{votes_hand,agent_hand} */
/* libs: -lcjson */
/*
 * Where the agent looks for a server when its own is lost, how long it bears
 * one that is of no use, and where it is sent.
 */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/votes_hand.h"

/* -- where it looks -------------------------------------------------------- */

/* The whole of issue 15 for one node: the endpoint's host falls silent, and the
 * workers of this one never notice. B's host is silent as well. */
TEST(test_silent_host_costs_no_worker)
{
    run_voted();
    step((struct agent_event){.kind = AGENT_TICK});
    pass(100 * MONO_MS);
    answer();
    pass(249 * MONO_MS);
    ck_assert_str_eq(did, "send:beat send:beat ");
    pass(1 * MONO_MS); /* a quarter of a lease */
    ck_assert_str_eq(did, "look ");
    ck_assert_str_eq(looked, "0: 0:" B " 0:" C " ");
    seen(2, 0, 1);
    ck_assert_str_eq(did, ""); /* the others may still answer */
    pass(100 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect:" C " look "));
    ck_assert_int_eq(joined.join.via, 0);
    connected();
    ck_assert_str_eq(did, "send:join send:vote ");
    ck_assert_int_eq(joined.join.via, 31);
    ck_assert_int_eq(joined.join.answered_ms, 350);
    pass(200 * MONO_MS);
    prepare(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
    ck_assert_str_eq(did, "found ");
    ck_assert_int_eq(agent.alive, 2);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    ck_assert_str_eq(told, "it is served at " C " from now on");
}

/* A node without a vote has time; and with a short heartbeat a lost segment is
 * waited for, as far as the lease allows it. */
TEST_LOOP(test_silence_that_is_borne, 0, 7)
{
    static const struct {
        int64_t heartbeat_ms;
        bool votes;
        int64_t borne_ms;
    } cases[] = {
        {1000, true, 250},   {1000, false, 500}, {300, true, 120},
        {300, false, 240},   {600, true, 240},   {5000, true, 1250},
        {20000, true, 5000},
    };
    agent.conf.join.heartbeat_ms = cases[_i].heartbeat_ms;
    step((struct agent_event){.kind = AGENT_START});
    connected();
    prepare(1, "s");
    lease(1, cases[_i].heartbeat_ms * 4 / 5);
    if (cases[_i].votes)
        propose(1, "");
    else
        voters(1, 1, false, "", "");
    pass(cases[_i].borne_ms * MONO_MS - 1);
    ck_assert_ptr_null(strstr(did, "look"));
    pass(1);
    ck_assert_ptr_nonnull(strstr(did, "look"));
}

/* A reset proves nothing, and neither does a refusal: the same place once more,
 * and all others beside it. */
TEST(test_killed_server_is_followed_at_once)
{
    run_voted();
    int64_t until_us = agent_lease_until_us(&agent);
    int64_t from_us = now_us;
    server_is_killed();
    until_us += 100 * MONO_MS;
    unseen(2);
    disconnected();
    ck_assert_str_eq(did, ""); /* all were tried: a pause */
    ck_assert_int_le(agent_deadline(&agent) - now_us, 20 * MONO_MS);
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    ck_assert_int_eq(now_us, from_us + 100 * MONO_MS);
    while (agent.stop != AGENT_STOP_KILLED && now_us < until_us + MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING)
            disconnected();
        pass(MONO_MS);
    }
    ck_assert_int_eq(now_us, until_us);
}

/* It stays where it has joined as long as no place is better, whatever comes:
 * no list of voters, and no time, sends it to and fro. */
TEST(test_stays_where_the_others_come)
{
    int joins = 0;
    run_voted();
    server_is_killed();
    connected(); /* at B */
    for (int ms = 0; ms < 5000; ms += 100) {
        if (agent.alive == 2 && agent.stop == AGENT_STOP_KILLED)
            both_die(9);
        unseen(0);
        seen(1, 0, 2);
        seen(2, 0, 2);
        voters(1, 1, true, ALL, "");
        pass(100 * MONO_MS);
        joins += strstr(did, "connect") != NULL;
    }
    ck_assert_int_eq(joins, 0);
    ck_assert_int_eq(agent.session.state, AGENT_SESSION_UP);
    seen(2, 0, 3); /* one voter does not reach B */
    pass(500 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect:" C " "));
}

/* Another place leads: whatever it waits for, it goes there at once. */
TEST_LOOP(test_leader_is_joined_at_once, 0, 3)
{
    run_voted();
    if (_i == 2)
        prepare(2, "t");
    server_is_killed();
    if (_i == 1)
        connected(); /* at B */
    if (_i == 2)
        seen(2, 1, 0); /* one that has was deposed unawares is none */
    if (_i == 2)
        ck_assert_str_eq(did, "");
    seen(2, 2, 0);
    ck_assert_str_eq(did, "disconnect connect:" C " ");
    connected();
    prepare(2, "t");
    answer();
    ck_assert_ptr_nonnull(strstr(did, "found"));
}

/* Cut off, and reached again: the session's connection is stuck in what TCP
 * sends again and again, a new one is not. */
TEST(test_connection_that_is_stuck_is_made_anew)
{
    run_voted();
    pass(100 * MONO_MS);
    answer();
    pass(250 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "look"));
    seen(0, 1, 0);
    ck_assert_str_eq(did, "disconnect connect ");
    seen(0, 1, 0);
    ck_assert_str_eq(did, ""); /* it has begun just now */
    pass(249 * MONO_MS);
    seen(0, 1, 0);
    ck_assert_str_eq(did, "");
    pass(1 * MONO_MS);
    seen(0, 1, 0);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect "));
}

/* Says how many of how many are there, once in a while; gives up in the end,
 * with the reason. */
TEST(test_side_without_most_of_the_voters_waits_and_says_so)
{
    struct msg m = {.kind = MSG_KIND_waiting,
                    .waiting = {.voters = 3, .voters_here = 1}};
    int times = 0;
    run_voted();
    server_is_killed();
    while (!exited && now_us < 2000 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING)
            connected();
        if (agent.session.state == AGENT_SESSION_UP) {
            told[0] = '\0';
            seen(1, 0, 1);
            hear(&m);
            times += strncmp(told, "1 of the 3 voters", 17) == 0 &&
                     strstr(told, "(no answer to this node: the endpoint, " C
                                  ")") != NULL;
        }
        if (agent.alive == 2 && agent.stop == AGENT_STOP_KILLED)
            both_die(9);
        pass(100 * MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_eq(times, 1); /* within 20 s */
    ck_assert_int_eq(verdict.status, 72);
    ck_assert_msg(strstr(verdict.text, "1 of the 3 voters") != NULL, "%s",
                  verdict.text);
}

/* -- sent on --------------------------------------------------------------- */

TEST_LOOP(test_goes_where_the_run_is_said_to_be, 0, 6)
{
    static const struct {
        int64_t count;
        const char *id, *addr;
        bool goes;
    } cases[] = {
        {1, "s", "10.9.9.9:5", true},  {2, "t", "10.9.9.9:5", true},
        {1, "r", "10.9.9.9:5", false}, {2, "t", "10.9.9.9", false},
        {2, "t", "10.9 9.9:5", false}, {2, "t", B, false},
    };
    run_voted();
    server_is_killed();
    connected(); /* at B */
    moved(cases[_i].count, cases[_i].id, cases[_i].addr);
    ck_assert_str_eq(did,
                     cases[_i].goes ? "disconnect connect:10.9.9.9:5 " : "");
}

/* Its leader hands the run to a daemon at the endpoint; an older one cannot. */
TEST_LOOP(test_goes_to_the_endpoint_where_a_daemon_is_back, 0, 2)
{
    run_voted();
    server_is_killed();
    connected(); /* at B */
    moved(_i == 0 ? 2 : 1, _i == 0 ? "t" : "r", "");
    ck_assert_str_eq(did, _i == 0 ? "disconnect connect " : "");
}

/* A node that comes new, at the endpoint of a run that moved. */
TEST(test_newcomer_is_sent_on)
{
    step((struct agent_event){.kind = AGENT_START});
    connected();
    moved(7, "t", "10.9.9.9:5");
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
    connected();
    moved(7, "t", "10.9.9.8:5");
    ck_assert_str_eq(did, "disconnect "); /* a circle is not run in */
    pass(20 * MONO_MS);
    ck_assert_str_eq(did, "connect:10.9.9.8:5 ");
    disconnected();
    ck_assert_str_eq(did, "look ");
    seen(0, 0, 0);
    ck_assert_str_eq(did, "connect ");
}

/* The place to which it was sent has nothing, and is no place of the list: it
 * goes back to the endpoint. */
TEST(test_newcomer_returns_from_where_it_was_sent)
{
    struct msg m = {.kind = MSG_KIND_waiting};
    int64_t from_us = now_us;
    step((struct agent_event){.kind = AGENT_START});
    connected();
    moved(7, "t", "10.9.9.9:5");
    connected();
    hear(&m);
    disconnected();
    ck_assert_str_eq(did, "look ");
    seen(0, 0, 0);
    ck_assert_str_eq(did, "connect ");
    ck_assert_int_le(now_us - from_us, 3 * MONO_S);
}

/* Servers that had nothing let it promise more than the one that has the run:
 * it has no vote, so that nobody counts on that. */
TEST(test_newcomer_is_sent_on_to_a_lower_term)
{
    step((struct agent_event){.kind = AGENT_START});
    connected();
    prepare(9, "s");
    answer();
    moved(7, "t", "10.9.9.9:5");
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
    connected();
    ck_assert_int_eq(joined.join.term.count, 0);
    prepare(7, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
    voters(1, 7, true, ALL, ""); /* now it has */
    moved(6, "t", "10.9.9.8:5");
    ck_assert_str_eq(did, "");
}

/* The term that it obeys counts, a lower one does not. */
TEST(test_is_sent_on_by_its_own_leader)
{
    run_voted();
    moved(1, "r", "10.9.9.9:5");
    ck_assert_str_eq(did, "");
    moved(2, "t", "10.9.9.9:5");
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
}

static void show(int64_t count, const char *id, const char *instance)
{
    struct msg m = {.kind = MSG_KIND_prepare, .prepare.term.count = count};
    msg_set(m.prepare.term.id, id);
    msg_set(m.prepare.instance, instance);
    hear(&m);
}

/* Its instance was begun beside an older one, and has had more servers. What it
 * promised there says nothing in the older one; but it promises no server of
 * the younger one again. */
TEST_LOOP(test_node_gives_a_younger_instance_up, 0, 4)
{
    struct msg m = {.kind = MSG_KIND_serves, .serves.term.count = 3};
    msg_set(m.serves.term.id, "t");
    msg_set(m.serves.addr, "10.9.9.9:5");
    msg_set(m.serves.instance, _i == 1 ? "i" : "older");
    run_voted();
    show(9, "s", "i");
    hear(&m);
    if (_i == 1) {
        ck_assert_str_eq(did, ""); /* it obeys a later one */
        return;
    }
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
    connected();
    ck_assert_str_eq(did, "send:join send:vote ");
    ck_assert_int_eq(joined.join.term.count, 9);
    ck_assert_str_eq(joined.join.term_of, "i");
    show(3, "t", _i == 2 ? "" : _i == 3 ? "i" : "older");
    if (_i > 1) {
        ck_assert_str_eq(did, "");
        return;
    }
    ck_assert_str_eq(did, "send:promise send:beat ");
    disconnected();
    pass(20 * MONO_MS);
    connected();
    ck_assert_str_eq(did, "send:join ");
    ck_assert_int_eq(joined.join.term.count, 3);
    ck_assert_str_eq(joined.join.term_of, "");
    show(9, "s", "i");
    ck_assert_str_eq(did, "");
    show(3, "t", "older");
    ck_assert_str_eq(did, "send:promise ");
}

/* A node that has been in two instances does not know which promise was whose:
 * it goes by their counts. */
TEST(test_node_gives_an_instance_up_once)
{
    struct msg m = {.kind = MSG_KIND_voters,
                    .voters = {.round = 9, .term.count = 3, .pending = 1}};
    msg_set(m.voters.term.id, "t");
    msg_set(m.voters.instance, "older");
    msg_set(m.voters.ids, ALL);
    run_voted();
    show(9, "s", "i");
    show(3, "t", "older");
    ck_assert_str_eq(did, "send:promise send:beat ");
    hear(&m);
    ck_assert_str_eq(did, "send:accept ");
    show(2, "r", "oldest");
    ck_assert_str_eq(did, "");
    show(4, "r", "oldest");
    ck_assert_str_eq(did, "send:promise send:beat ");
}

/* The server of its own instance counts how long the lease of its workers runs,
 * and knows of no other grants: those are for what comes after. */
TEST(test_lease_of_another_instance_is_not_for_the_workers)
{
    run_voted();
    int64_t until_us = agent_lease_until_us(&agent);
    show(3, "t", "older");
    ck_assert_str_eq(did, "send:promise send:beat ");
    pass(100 * MONO_MS);
    lease(agent.session.beat_seq, 800);
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    both_die(SIGKILL);
    pass(100 * MONO_MS);
    lease(agent.session.beat_seq, 800);
    ck_assert_int_gt(agent.lease_until_us, until_us);
}

TEST(test_agent_list_of_endpoints_is_tried_in_order)
{
    struct agent_conf conf = agent.conf;
    conf.endpoints = 3;
    agent_init(&agent, &conf);
    step((struct agent_event){.kind = AGENT_START});
    ck_assert_str_eq(did, "connect ");
    disconnected();
    ck_assert_str_eq(did, "look ");
    ck_assert_str_eq(looked, "0: 1: 2: ");
    seen(2, 0, 0);
    ck_assert_str_eq(did, "");
    unseen(1);
    ck_assert_str_eq(did, "connect:2 ");
    connected();
    ck_assert_int_eq(joined.join.via, 2);
    lease(0, 800);
    ck_assert_str_eq(did, "found ");
    world("i", 1);
    pass(200 * MONO_MS);
    disconnected();
    ck_assert_str_eq(did, "connect:2 look ");
    disconnected();
    ck_assert_str_eq(did, "");
    unseen(2);
    seen(0, 0, 0);
    ck_assert_str_eq(did, "connect ");
}

/* The second address of the list answers, where no run begins. The first one is
 * waited for as long as it may take to be there; each session with the second
 * one is no news. */
TEST(test_agent_list_waits_for_its_first_address_and_says_so)
{
    struct agent_conf conf = agent.conf;
    struct msg m = {.kind = MSG_KIND_waiting};
    int64_t from_us = now_us;
    int times = 0;
    conf.endpoints = 2;
    agent_init(&agent, &conf);
    step((struct agent_event){.kind = AGENT_START});
    while (!exited && now_us < from_us + 1000 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING &&
            candidates_which(&agent.candidates) == 0)
            disconnected();
        else if (agent.session.state == AGENT_SESSION_CONNECTING)
            connected();
        if (agent.session.state == AGENT_SESSION_UP) {
            told[0] = '\0';
            hear(&m);
            times += strncmp(told, "address 2 of --rdzv_endpoint", 28) == 0;
        }
        unseen(0);
        seen(1, 0, 0);
        pass(100 * MONO_MS);
    }
    int64_t took_us = now_us - from_us;
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 69);
    ck_assert_int_ge(took_us, conf.join.join_ms * MONO_MS);
    ck_assert_int_le(took_us, conf.join.join_ms * MONO_MS + MONO_S);
    ck_assert_int_ge(times, 1);
    ck_assert_int_le(times, 1 + (int)(conf.join.join_ms / 30000));
}

/* Until it has given up, or a day is over; no server is there any more. */
static void find_nobody(void)
{
    while (!exited && now_us < 86400 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING)
            disconnected();
        else
            pass(10 * MONO_MS);
    }
}

/* A node that has no round yet waits for one as long as it may take to join, in
 * all: servers that came and went do not begin that anew. After the last one it
 * looks for another for a lease at least; a voter looks for as long as its vote
 * is needed. */
TEST_LOOP(test_agent_servers_that_come_and_go_do_not_extend_the_join, 0, 5)
{
    static const struct {
        int servers; /* one after the other, */
        int each_s;  /* of which each is there for so long */
        bool leads, votes;
        int64_t took_ms, status;
    } cases[] = {
        {1, 1, false, false, 21000, 72}, /* reconnect_ms is less */
        {1, 50, false, false, 60000, 72}, {6, 9, true, false, 60000, 72},
        {1, 90, true, false, 91000, 72}, /* a lease more */
        {1, 50, true, true, 70000, 72},
    };
    int64_t from_us = now_us;
    step((struct agent_event){.kind = AGENT_START});
    for (int i = 0; i < cases[_i].servers; i++) {
        connected();
        if (cases[_i].leads)
            prepare(i + 1, "s");
        lease(0, 0);
        for (int ms = 0; ms < cases[_i].each_s * 1000; ms += 200) {
            pass(200 * MONO_MS);
            lease(agent.session.beat_seq, 0);
        }
        if (cases[_i].votes)
            voters(1, 1, true, ALL, "");
        disconnected();
    }
    find_nobody();
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, cases[_i].status);
    int64_t took_ms = (now_us - from_us) / MONO_MS;
    ck_assert_int_ge(took_ms, cases[_i].took_ms - 20);
    ck_assert_int_le(took_ms, cases[_i].took_ms + 20);
}

AGENT_SUITE("agent_search")
