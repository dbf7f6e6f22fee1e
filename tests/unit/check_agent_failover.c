/* links: tests/lib/agent_hand */
/* libs: -lcjson */
/*
 * The agent in a run with failover: whom it obeys, what it accepts and tells,
 * and where it looks for a server when its own is lost.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/agent_hand.h"

#define ME    AGENT_HAND_VOTE " "
#define OTHER "00000000000000bb "
#define THIRD "00000000000000cc "
#define ALL   ME OTHER THIRD
#define B     "10.0.0.2:700"
#define C     "10.0.0.3:700"

/* -- what a server says ---------------------------------------------------- */

static void office(int64_t count, const char *id)
{
    struct msg m = {.kind = MSG_KIND_office, .office.epoch = count};
    msg_set(m.office.epoch_id, id);
    hear(&m);
}

static void voters(int64_t round,
                   int64_t count,
                   bool pending,
                   const char *ids,
                   const char *before)
{
    struct msg m = {
        .kind = MSG_KIND_voters,
        .voters = {.round = round, .epoch = count, .pending = pending}};
    msg_set(m.voters.epoch_id, count == 1 ? "s" : "t");
    msg_set(m.voters.ids, ids);
    msg_set(m.voters.before, before);
    msg_set(m.voters.addrs, "- " B " " C " ");
    hear(&m);
}

static void place(int64_t round, int64_t count, bool pending)
{
    struct msg m = {.kind = MSG_KIND_world,
                    .world = {.round = round,
                              .epoch = count,
                              .pending = pending,
                              .group_rank = 1,
                              .group_world = 3,
                              .base_rank = 2,
                              .world_size = 6,
                              .restarts = 4}};
    msg_set(m.world.instance, "i");
    msg_set(m.world.epoch_id, count == 1 ? "s" : "t");
    hear(&m);
}

static void go(int64_t round, int64_t count)
{
    struct msg m = {.kind = MSG_KIND_go,
                    .go = {.round = round, .epoch = count}};
    msg_set(m.go.epoch_id, count == 1 ? "s" : "t");
    hear(&m);
}

static void moved(int64_t count, const char *id, const char *addr)
{
    struct msg m = {.kind = MSG_KIND_moved, .moved.epoch = count};
    msg_set(m.moved.epoch_id, id);
    msg_set(m.moved.addr, addr);
    hear(&m);
}

static void refuse(void)
{
    struct msg m = {.kind = MSG_KIND_refused, .refused = {.code = DDP_E_NOMEM}};
    msg_set(m.refused.text, "no");
    hear(&m);
}

/* The answer to the last beat. */
static void answer(void)
{
    lease(agent.session.beat_seq, 800);
}

/* -- worlds ---------------------------------------------------------------- */

/* Obeys server s, of epoch 1. */
static void obey(void)
{
    step((struct agent_event){.kind = AGENT_START});
    connected();
    ck_assert_str_eq(did, "send:join ");
    office(1, "s");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
}

/* In the first round it has nothing to tell before it knows the instance. */
static void propose(int64_t round, const char *before)
{
    bool first = agent.round.evidence == AGENT_NO_ROUND;
    voters(round, 1, true, ALL, before);
    ck_assert_str_eq(did, first ? "" : "send:accept ");
    place(round, 1, true);
    ck_assert_str_eq(did, first ? "send:accept " : "");
}

/* ... and runs round 1, whose voters are three. */
static void run_voted(void)
{
    obey();
    propose(1, "");
    go(1, 1);
    ck_assert_str_eq(did, "spawn ");
}

/* Its server is killed, and so is the one that took its place. */
static void server_is_killed(void)
{
    pass(100 * MONO_MS);
    answer();
    disconnected();
    ck_assert_str_eq(did, "connect ");
    disconnected();
}

/* The successor at B takes office. */
static void succeed(void)
{
    server_is_killed();
    ck_assert_str_eq(did, "connect:" B " ");
    connected();
    office(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
}

/* -- two steps to a round -------------------------------------------------- */

START_TEST(test_failover_round_begins_with_go)
{
    obey();
    ck_assert_int_eq(last.beat.seq, 1);
    propose(1, "");
    ck_assert_int_eq(last.accept.round, 1);
    ck_assert_int_eq(last.accept.epoch, 1);
    ck_assert_str_eq(last.accept.epoch_id, "s");
    go(1, 1);
    ck_assert_str_eq(did, "spawn ");
    go(1, 1); /* said again */
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.round.world.base_rank, 2);
}
END_TEST

/* A round of one node, or a node that has no vote, needs one step. */
START_TEST(test_failover_world_in_force_begins_at_once)
{
    obey();
    voters(1, 1, false, _i == 0 ? ME : "", "");
    ck_assert_str_eq(did, "");
    place(1, 1, false);
    ck_assert_str_eq(did, "spawn ");
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, _i == 0 ? "send:join send:voted " : "send:join ");
}
END_TEST

/* Nothing starts by half of it. */
START_TEST(test_failover_go_without_its_place_starts_nothing)
{
    obey();
    go(1, 1);
    ck_assert_str_eq(did, "");
    place(1, 1, true); /* not accepted */
    ck_assert_str_eq(did, "");
    go(1, 1);
    ck_assert_str_eq(did, "");
    voters(1, 1, true, ALL, "");
    go(2, 1); /* another round's */
    ck_assert_str_eq(did, "");
    go(1, 1); /* in force, but where is this node in it? */
    ck_assert_str_eq(did, "");
    place(1, 1, true);
    go(1, 1);
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

START_TEST(test_failover_go_after_the_lease_starts_nothing)
{
    obey();
    propose(1, "");
    now_us += 900 * MONO_MS;
    go(1, 1);
    ck_assert_str_eq(did, "send:ready ");
    ck_assert_int_eq(last.ready.round, 1);
}
END_TEST

/* Only the newest proposal counts, by epoch first and by number then. */
START_TEST(test_failover_newer_proposal_takes_the_place_of_an_older_one)
{
    obey();
    propose(2, "");
    voters(1, 1, true, ALL, ""); /* overtaken */
    ck_assert_str_eq(did, "");
    voters(2, 1, true, ALL, ""); /* said again */
    ck_assert_str_eq(did, "send:accept ");
    propose(3, ALL);
    go(2, 1);
    ck_assert_str_eq(did, "");
    office(2, "t");
    voters(4, 1, true, ALL, ""); /* of the older epoch */
    ck_assert_str_eq(did, "");
    voters(4, 3, true, ALL, ""); /* of one that it did not promise */
    ck_assert_str_eq(did, "");
    voters(3, 2, true, ALL, ALL);
    go(3, 1);
    ck_assert_str_eq(did, "");
    place(3, 2, true);
    ck_assert_str_eq(did, "send:accept ");
    ck_assert_int_eq(last.accept.epoch, 2);
    go(3, 2);
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

/* A voter of the round before is asked, though it has no place in the new one;
 * its workers run on as long as it has a lease. */
START_TEST(test_failover_voter_of_the_round_before_accepts)
{
    run_voted();
    voters(2, 1, true, OTHER THIRD, ALL);
    ck_assert_str_eq(did, "send:accept ");
    ck_assert_int_eq(agent.alive, 2);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:voted send:accept ");
    ck_assert_int_eq(voted.voted.round, 2);
    ck_assert_int_eq(voted.voted.group_rank, -1);
    ck_assert_str_eq(voted.voted.voters, OTHER THIRD);
    ck_assert_str_eq(voted.voted.before, ALL);
    ck_assert_int_eq(joined.join.round, 1);
    ck_assert_int_eq(joined.join.state, MSG_STATE_RUNNING);
}
END_TEST

/* M2: the voters of the new round never heard of the long lease. */
START_TEST(test_failover_long_lease_does_not_outlive_its_round)
{
    run_voted();
    lease(1, 60000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 60 * MONO_S);
    voters(2, 1, true, ALL, ALL);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
}
END_TEST

/* Nor that of a node without a vote, which is asked for nothing: it is cut when
 * the next round begins. */
START_TEST(test_failover_long_lease_does_not_enter_the_next_round)
{
    obey();
    voters(1, 1, false, "", "");
    place(1, 1, false);
    lease(1, 60000);
    int64_t granted_us = now_us;
    pass(50 * MONO_MS);
    stop(1);
    both_die(SIGTERM);
    ck_assert_int_eq(agent.lease_until_us, now_us + 800 * MONO_MS);
    place(2, 1, false);
    ck_assert_str_eq(did, "spawn ");
    ck_assert_int_eq(agent_lease_until_us(&agent), granted_us + 800 * MONO_MS);
}
END_TEST

/* A node that takes part in rounds already accepts before it has a place. */
START_TEST(test_failover_member_accepts_the_next_round_at_once)
{
    run_voted();
    stop(1);
    both_die(15);
    ck_assert_str_eq(did, "sweep send:ready ");
    propose(2, ALL);
    go(2, 1);
    ck_assert_str_eq(did, "spawn ");
    ck_assert_int_eq(agent.round.world.round, 2);
}
END_TEST

/* -- what the next server is told ------------------------------------------ */

START_TEST(test_failover_voter_tells_what_it_accepted)
{
    obey();
    pass(50 * MONO_MS);
    propose(1, OTHER);
    struct msg m = {
        .kind = MSG_KIND_lease,
        .lease = {.seq = 1, .grant_ms = 800, .long_ms = _i == 1 ? 5000 : 0}};
    hear(&m);
    if (_i == 1)
        go(1, 1);
    now_us += 30 * MONO_MS;
    disconnected();
    connected();
    ck_assert_str_eq(did, _i == 0 ? "send:join send:voted send:accept "
                                  : "send:join send:voted ");
    ck_assert_int_eq(joined.join.epoch, 1);
    ck_assert_str_eq(joined.join.epoch_id, "s");
    ck_assert_int_eq(joined.join.round, _i == 0 ? 0 : 1);
    ck_assert_str_eq(voted.voted.instance, "i");
    ck_assert_int_eq(voted.voted.round, 1);
    ck_assert_int_eq(voted.voted.epoch, 1);
    ck_assert_str_eq(voted.voted.epoch_id, "s");
    ck_assert_int_eq(voted.voted.group_rank, 1);
    ck_assert_int_eq(voted.voted.group_world, 3);
    ck_assert_int_eq(voted.voted.restarts, 4);
    ck_assert_str_eq(voted.voted.voters, ALL);
    ck_assert_str_eq(voted.voted.before, _i == 0 ? OTHER : "");
    ck_assert_int_eq(voted.voted.answered_ms, 30);
    ck_assert_int_eq(voted.voted.long_ms, _i == 1 ? 5000 : 0);
    ck_assert_int_eq(voted.voted.end_epoch, 0);
}
END_TEST

/* `go` was lost with the connection, and comes by the next one. */
START_TEST(test_failover_go_comes_by_another_connection)
{
    obey();
    propose(1, "");
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:voted send:accept ");
    go(1, 1); /* the server has not shown its epoch */
    ck_assert_str_eq(did, "");
    office(1, "s");
    ck_assert_str_eq(did, "send:promise ");
    go(1, 1);
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

/* The next server goes on with the round that was pending, or with another. */
START_TEST(test_failover_next_server_finds_a_pending_round)
{
    obey();
    propose(1, "");
    succeed();
    if (_i == 0) {
        go(1, 1);
        ck_assert_str_eq(did, "spawn ");
        return;
    }
    voters(2, 2, true, ALL, "");
    place(2, 2, true);
    ck_assert_str_eq(did, "send:accept ");
    go(1, 1); /* of the older round */
    ck_assert_str_eq(did, "");
    go(2, 2);
    ck_assert_str_eq(did, "spawn ");
}
END_TEST

/* To another epoch it says no `accept` of an older one. */
START_TEST(test_failover_accept_is_for_the_epoch_that_proposed)
{
    obey();
    propose(1, "");
    succeed();
    pass(50 * MONO_MS);
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:voted ");
}
END_TEST

/* -- whom it obeys --------------------------------------------------------- */

START_TEST(test_failover_server_of_an_older_epoch_is_not_obeyed)
{
    run_voted();
    succeed();
    ck_assert_str_eq(told, "it is served at " B " from now on");
    disconnected();
    connected();
    office(1, "s");
    ck_assert_str_eq(did, "");
    office(1, "zz");
    ck_assert_str_eq(did, "");
    int64_t until_us = agent_lease_until_us(&agent);
    lease(0, 5000);
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    stop(1);
    ck_assert_str_eq(did, "");
    end(1);
    ck_assert_str_eq(did, "");
    voters(9, 2, true, ALL, "");
    ck_assert_str_eq(did, "");
    place(9, 2, false);
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.alive, 2);
    office(2, "t");
    ck_assert_str_eq(did, "send:promise ");
    lease(0, 5000);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 5000 * MONO_MS);
}
END_TEST

/* For the report: from where to where, and for how long there was no lease. */
START_TEST(test_failover_takeover_is_kept_for_the_report)
{
    run_voted();
    pass(100 * MONO_MS);
    answer();
    ck_assert_int_eq(agent.takeover.count, 0);
    pass(100 * MONO_MS);
    disconnected();
    disconnected();
    pass(50 * MONO_MS);
    connected();
    office(2, "t");
    answer();
    ck_assert_int_eq(agent.takeover.count, 1);
    ck_assert_str_eq(agent.takeover.from.target, "");
    ck_assert_str_eq(agent.takeover.to.target, B);
    ck_assert_int_eq(agent.takeover.to.epoch.count, 2);
    ck_assert_int_eq(agent.takeover.gap_us, 150 * MONO_MS);
}
END_TEST

/* The server lives and gives no lease: what is missing are other nodes. */
START_TEST(test_failover_fence_says_that_nodes_are_missing)
{
    run_voted();
    for (int i = 0; i < 60 && agent.stop != AGENT_STOP_KILLED; i++) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            connected();
            office(1, "s");
        }
        pass(20 * MONO_MS);
    }
    ck_assert_ptr_nonnull(strstr(fenced, "hears of too few nodes"));
}
END_TEST

/* Epochs of one count are ordered by the servers' ids. */
START_TEST(test_failover_epochs_of_one_count)
{
    obey();
    office(1, "r");
    ck_assert_str_eq(did, "");
    office(1, "s");
    ck_assert_str_eq(did, "send:promise ");
    office(1, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    ck_assert_str_eq(agent.vote.promised.id, "t");
}
END_TEST

/* It keeps the lease that the older server gave. */
START_TEST(test_failover_promise_leaves_the_lease)
{
    run_voted();
    int64_t until_us = agent_lease_until_us(&agent);
    office(2, "t");
    ck_assert_int_eq(agent_lease_until_us(&agent), until_us);
    ck_assert_int_eq(agent.alive, 2);
}
END_TEST

/* A server that knows nothing of the run may be full, or somebody else's. */
START_TEST(test_failover_refusal_without_authority_is_no_answer)
{
    run_voted();
    server_is_killed();
    connected();
    refuse();
    ck_assert_str_eq(did, "disconnect connect "); /* it may be back */
    disconnected();
    ck_assert_str_eq(did, "connect:" C " ");
    ck_assert(!exited);
    connected();
    office(2, "t");
    struct msg m = {.kind = MSG_KIND_refused,
                    .refused = {.code = DDP_E_CONFLICT}};
    hear(&m);
    ck_assert_str_eq(did, "kill:15 "); /* of a server in office it counts */
}
END_TEST

/* It has voted for the server that it told of its leave. */
START_TEST(test_failover_node_that_leaves_has_no_other_vote)
{
    run_voted();
    signal_comes(SIGTERM);
    ck_assert_str_eq(did, "send:leave kill:15 ");
    office(2, "s"); /* the same server */
    ck_assert_str_eq(did, "send:promise send:beat ");
    voters(2, 2, true, ALL, "");
    ck_assert_str_eq(did, "");
    disconnected();
    connected();
    ck_assert_str_eq(did, "send:join send:leave ");
    office(3, "t");
    ck_assert_str_eq(did, "");
    ck_assert_int_eq(agent.vote.promised.count, 2);
}
END_TEST

/* -- where it looks -------------------------------------------------------- */

/* The whole of issue 15 for one node: the endpoint's host falls silent, and the
 * workers of this one never notice. */
START_TEST(test_failover_silent_host_costs_no_worker)
{
    run_voted();
    step((struct agent_event){.kind = AGENT_TICK});
    pass(100 * MONO_MS);
    answer();
    pass(249 * MONO_MS);
    ck_assert_str_eq(did, "send:beat send:beat ");
    pass(1 * MONO_MS);
    ck_assert_str_eq(did, "disconnect connect:" B " ");
    ck_assert_int_eq(within_ms, 100);
    pass(100 * MONO_MS); /* its host is silent, too */
    ck_assert_str_eq(did, "disconnect connect:" C " ");
    ck_assert_int_eq(joined.join.via, 0);
    connected();
    ck_assert_str_eq(did, "send:join send:voted ");
    ck_assert_int_eq(joined.join.via, 31);
    ck_assert_int_eq(voted.voted.answered_ms, 350);
    pass(200 * MONO_MS);
    ck_assert_str_eq(did, "send:beat send:beat ");
    office(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
    ck_assert_int_eq(agent.alive, 2);
    ck_assert_int_eq(agent_lease_until_us(&agent), now_us + 800 * MONO_MS);
    ck_assert_str_eq(told, "it is served at " C " from now on");
}
END_TEST

/* A node without a vote has time; and with a short heartbeat a lost segment is
 * waited for, as far as the lease allows it. */
START_TEST(test_failover_silence_that_is_borne)
{
    static const struct {
        int64_t heartbeat_ms;
        bool votes;
        int64_t borne_ms;
    } cases[] = {
        {1000, true, 250},   {1000, false, 1000}, {300, true, 120},
        {300, false, 300},   {600, true, 240},    {5000, true, 1250},
        {20000, true, 5000},
    };
    agent.conf.join.heartbeat_ms = cases[_i].heartbeat_ms;
    step((struct agent_event){.kind = AGENT_START});
    connected();
    office(1, "s");
    lease(1, cases[_i].heartbeat_ms * 4 / 5);
    if (cases[_i].votes)
        propose(1, "");
    pass(cases[_i].borne_ms * MONO_MS - 1);
    ck_assert_ptr_null(strstr(did, "disconnect"));
    pass(1);
    ck_assert_ptr_nonnull(strstr(did, "disconnect"));
}
END_TEST

/* A voter's address on the host that fell silent is not tried first. */
START_TEST(test_failover_other_address_of_the_silent_host_is_left_out)
{
    step((struct agent_event){.kind = AGENT_START});
    step((struct agent_event){.kind = AGENT_CONNECTED, .peer = "10.0.0.2"});
    office(1, "s");
    answer();
    propose(1, "");
    pass(250 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect connect:" C " "));
}
END_TEST

/* A reset proves nothing, and neither does a refusal: the same place once more,
 * and on. */
START_TEST(test_failover_killed_server_is_followed_at_once)
{
    run_voted();
    int64_t until_us = agent_lease_until_us(&agent);
    int64_t from_us = now_us;
    server_is_killed();
    until_us += 100 * MONO_MS;
    ck_assert_str_eq(did, "connect:" B " ");
    disconnected();
    ck_assert_str_eq(did, "connect:" C " ");
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
END_TEST

/* A server without office answers, but gives no lease. */
START_TEST(test_failover_server_without_a_lease_is_left)
{
    run_voted();
    server_is_killed();
    connected();
    pass(249 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "connect"));
    pass(1 * MONO_MS);
    ck_assert_str_eq(did, "disconnect connect ");
    disconnected();
    ck_assert_str_eq(did, "connect:" C " ");
    connected();
    pass(200 * MONO_MS);
    office(2, "t"); /* counts from then on */
    pass(240 * MONO_MS);
    ck_assert_ptr_null(strstr(did, "connect"));
    office(2, "t"); /* in place of a lease: does not */
    pass(10 * MONO_MS);
    ck_assert_ptr_nonnull(strstr(did, "disconnect"));
}
END_TEST

/* Says how many of how many are there, once in a while; gives up in the end,
 * with the reason. */
START_TEST(test_failover_side_without_most_of_the_voters_waits_and_says_so)
{
    struct msg m = {.kind = MSG_KIND_waiting,
                    .waiting = {.voters = 3, .voters_here = 1}};
    int64_t dwelt_us = 0;
    int times = 0;
    run_voted();
    server_is_killed();
    while (!exited && now_us < 2000 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            int64_t from_us = now_us;
            connected();
            hear(&m);
            times += strncmp(told, "1 of the 3 voters", 17) == 0;
            told[0] = '\0';
            while (agent.session.state == AGENT_SESSION_UP && !exited)
                pass(MONO_MS);
            dwelt_us =
                now_us - from_us > dwelt_us ? now_us - from_us : dwelt_us;
        }
        if (agent.alive == 2 && agent.stop == AGENT_STOP_KILLED)
            both_die(9);
        pass(MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_eq(times, 1); /* within 20 s */
    ck_assert_int_eq(verdict.status, 72);
    ck_assert_msg(strstr(verdict.text, "1 of the 3 voters") != NULL, "%s",
                  verdict.text);
    ck_assert_int_ge(dwelt_us, 1000 * MONO_MS); /* at home */
    ck_assert_int_le(dwelt_us, 1260 * MONO_MS);
}
END_TEST

/* -- sent on --------------------------------------------------------------- */

START_TEST(test_failover_goes_where_the_run_is_said_to_be)
{
    static const struct {
        int64_t count;
        const char *id, *addr;
        bool goes;
    } cases[] = {
        {1, "s", "10.9.9.9:5", false}, {2, "t", "10.9.9.9:5", true},
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
END_TEST

/* A node that comes new, at the endpoint of a run that moved. */
START_TEST(test_failover_newcomer_is_sent_on)
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
    ck_assert_str_eq(did, "");
    pass(40 * MONO_MS);
    ck_assert_str_eq(did, "connect ");
}
END_TEST

/* Servers that had nothing let it promise more than the one that has the run:
 * it has no vote, so that nobody counts on that. */
START_TEST(test_failover_newcomer_is_sent_on_to_a_lower_epoch)
{
    step((struct agent_event){.kind = AGENT_START});
    connected();
    office(9, "s");
    answer();
    moved(7, "t", "10.9.9.9:5");
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
    connected();
    ck_assert_int_eq(joined.join.epoch, 0);
    office(7, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    answer();
    voters(1, 7, true, ALL, ""); /* now it has */
    moved(6, "t", "10.9.9.8:5");
    ck_assert_str_eq(did, "");
}
END_TEST

START_TEST(test_failover_server_in_office_sends_nobody_on)
{
    run_voted();
    moved(1, "s", "10.9.9.9:5");
    ck_assert_str_eq(did, "");
    moved(2, "t", "10.9.9.9:5");
    ck_assert_str_eq(did, "disconnect connect:10.9.9.9:5 ");
}
END_TEST

/* Without failover, too. */
START_TEST(test_agent_list_of_endpoints_is_tried_in_order)
{
    struct agent_conf conf = agent.conf;
    conf.endpoints = 3;
    agent_init(&agent, &conf);
    step((struct agent_event){.kind = AGENT_START});
    ck_assert_str_eq(did, "connect ");
    disconnected();
    ck_assert_str_eq(did, "connect:1 ");
    disconnected();
    ck_assert_str_eq(did, "connect:2 ");
    ck_assert_int_eq(within_ms, 0);
    connected();
    ck_assert_int_eq(joined.join.via, 2);
    lease(0, 800);
    world("i", 1);
    pass(200 * MONO_MS);
    disconnected();
    ck_assert_str_eq(did, "connect:2 ");
    disconnected();
    ck_assert_str_eq(did, "");
    while (strstr(did, "connect") == NULL)
        pass(MONO_MS);
    ck_assert_str_eq(did, "connect ");
}
END_TEST

/* The second address of the list answers, where no run begins. The first one is
 * waited for as long as it may take to be there; each session with the second
 * one is no news. */
START_TEST(test_agent_list_waits_for_its_first_address_and_says_so)
{
    struct agent_conf conf = agent.conf;
    struct msg m = {.kind = MSG_KIND_waiting, .waiting = {.min = 2, .max = 2}};
    int64_t from_us = now_us;
    int times = 0;
    conf.endpoints = 2;
    conf.join.failover = MSG_FAILOVER_ON;
    agent_init(&agent, &conf);
    step((struct agent_event){.kind = AGENT_START});
    while (!exited && now_us < from_us + 1000 * MONO_S) {
        if (agent.session.state != AGENT_SESSION_CONNECTING) {
            pass(MONO_MS);
        } else if (candidates_which(&agent.candidates) == 0) {
            disconnected();
        } else {
            told[0] = '\0';
            connected();
            hear(&m);
            times += strncmp(told, "address 2 of --rdzv_endpoint", 28) == 0;
        }
    }
    int64_t took_us = now_us - from_us;
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 69);
    ck_assert_int_ge(took_us, conf.join.join_ms * MONO_MS);
    ck_assert_int_le(took_us, conf.join.join_ms * MONO_MS + MONO_S);
    ck_assert_int_ge(times, 1);
    ck_assert_int_le(times, 1 + (int)(conf.join.join_ms / 30000));
}
END_TEST

/* -- the end --------------------------------------------------------------- */

static void end_held(int status)
{
    struct msg m = {.kind = MSG_KIND_end, .end = {.status = status, .hold = 1}};
    msg_set(m.end.instance, "i");
    hear(&m);
}

static void hold_the_end(void)
{
    run_voted();
    both_die(0);
    end_held(0);
    ck_assert_str_eq(did, "send:bye ");
    server_is_killed();
}

/* The next server is told of it, with the epoch in which it was said, and
 * says it again. */
START_TEST(test_failover_next_server_hears_of_the_end)
{
    hold_the_end();
    connected();
    ck_assert_str_eq(did, "send:join send:voted ");
    ck_assert_int_eq(joined.join.ended, 1);
    ck_assert_int_eq(voted.voted.end_epoch, 1);
    ck_assert_str_eq(voted.voted.end_epoch_id, "s");
    end(0); /* a server without the authority says nothing that counts */
    ck_assert(!exited);
    office(2, "t");
    ck_assert_str_eq(did, "send:promise send:beat ");
    end_held(0);
    ck_assert_str_eq(did, "send:bye ");
    end(0);
    ck_assert_str_eq(did, "send:bye exit:0 ");
}
END_TEST

/* Tries each place, and twice a heartbeat, and exits. Returns how often it
 * tried. */
static int find_nobody(void)
{
    int64_t from_us = now_us;
    int tries = 0;
    while (!exited && now_us < from_us + 20 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            tries++;
            disconnected();
        }
        pass(MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_ge(now_us - from_us, 1900 * MONO_MS);
    ck_assert_int_le(now_us - from_us, 2200 * MONO_MS);
    return tries;
}

/* The others may have gone on: that end is not certain, and not what this node
 * ends with. Its workers have succeeded all the same. */
START_TEST(test_failover_success_that_is_held_is_no_end_of_the_run)
{
    hold_the_end();
    ck_assert_int_ge(find_nobody(), 3);
    ck_assert_int_eq(verdict.status, 0);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "nothing is known of the"));
}
END_TEST

START_TEST(test_failover_end_that_is_held_has_a_status_of_its_own)
{
    run_voted();
    end_held(130);
    both_die(SIGTERM);
    ck_assert(!exited);
    server_is_killed();
    ck_assert_int_ge(find_nobody(), 3);
    ck_assert_int_eq(verdict.status, 72);
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "status 130"));
    ck_assert_ptr_nonnull(strstr(verdict.text, "that was not final"));
}
END_TEST

/* ... also if the workers take longer than the server is waited for. */
START_TEST(test_failover_end_that_is_held_waits_for_the_workers_only)
{
    run_voted();
    end_held(130);
    agent.farewell_at_us = now_us;
    both_die(SIGTERM);
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
}
END_TEST

/* A server that says it again and again, and cannot make it final, is waited
 * for as long as one that is silent. */
START_TEST(test_failover_end_that_is_held_again_is_not_waited_for_anew)
{
    int64_t from_us = now_us;
    run_voted();
    end_held(130);
    both_die(SIGTERM);
    while (!exited && now_us < from_us + 60 * MONO_S) {
        if (agent.session.state == AGENT_SESSION_CONNECTING) {
            connected();
            office(1, "s");
            end_held(130);
        }
        pass(MONO_MS);
    }
    ck_assert(exited);
    ck_assert_int_eq(verdict.status, 72);
    ck_assert_int_le(now_us - from_us, 21 * MONO_S);
}
END_TEST

/* The others went on: no launcher ends well for a run that may fail yet. */
START_TEST(test_failover_end_is_void_if_the_others_went_on)
{
    hold_the_end();
    connected();
    office(2, "t");
    if (_i == 0) {
        voters(2, 2, true, OTHER THIRD, ALL);
        ck_assert_str_eq(did, "send:accept exit:72 ");
    } else { /* by a server that knows nothing of it, and is in office */
        refuse();
        ck_assert_str_eq(did, "exit:72 ");
    }
    ck_assert(!verdict.ended);
    ck_assert_ptr_nonnull(strstr(verdict.text, "the other nodes went on"));
}
END_TEST

static void add_tests(TCase *t)
{
    const TTest *const tests[] = {
        test_failover_round_begins_with_go,
        test_failover_go_without_its_place_starts_nothing,
        test_failover_go_after_the_lease_starts_nothing,
        test_failover_newer_proposal_takes_the_place_of_an_older_one,
        test_failover_voter_of_the_round_before_accepts,
        test_failover_long_lease_does_not_outlive_its_round,
        test_failover_long_lease_does_not_enter_the_next_round,
        test_failover_member_accepts_the_next_round_at_once,
        test_failover_go_comes_by_another_connection,
        test_failover_accept_is_for_the_epoch_that_proposed,
        test_failover_server_of_an_older_epoch_is_not_obeyed,
        test_failover_epochs_of_one_count,
        test_failover_takeover_is_kept_for_the_report,
        test_failover_fence_says_that_nodes_are_missing,
        test_failover_promise_leaves_the_lease,
        test_failover_refusal_without_authority_is_no_answer,
        test_failover_node_that_leaves_has_no_other_vote,
        test_failover_silent_host_costs_no_worker,
        test_failover_other_address_of_the_silent_host_is_left_out,
        test_failover_killed_server_is_followed_at_once,
        test_failover_server_without_a_lease_is_left,
        test_failover_side_without_most_of_the_voters_waits_and_says_so,
        test_failover_newcomer_is_sent_on,
        test_failover_newcomer_is_sent_on_to_a_lower_epoch,
        test_failover_server_in_office_sends_nobody_on,
        test_agent_list_of_endpoints_is_tried_in_order,
        test_failover_next_server_hears_of_the_end,
        test_failover_success_that_is_held_is_no_end_of_the_run,
        test_failover_end_that_is_held_has_a_status_of_its_own,
        test_failover_end_that_is_held_waits_for_the_workers_only,
        test_failover_end_that_is_held_again_is_not_waited_for_anew,
        test_agent_list_waits_for_its_first_address_and_says_so,
    };
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(t, tests[i]);
    tcase_add_loop_test(t, test_failover_world_in_force_begins_at_once, 0, 2);
    tcase_add_loop_test(t, test_failover_voter_tells_what_it_accepted, 0, 2);
    tcase_add_loop_test(t, test_failover_next_server_finds_a_pending_round, 0,
                        2);
    tcase_add_loop_test(t, test_failover_end_is_void_if_the_others_went_on, 0,
                        2);
    tcase_add_loop_test(t, test_failover_silence_that_is_borne, 0, 7);
    tcase_add_loop_test(t, test_failover_goes_where_the_run_is_said_to_be, 0,
                        6);
}

int main(void)
{
    return agent_hand_run("agent_failover", add_tests);
}
