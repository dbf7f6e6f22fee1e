/* links: tests/unit/rendezvous/core/{voter_hand,rdzv_hand} */
/* libs: -lcjson */
/*
 * A leader: rounds in two steps, leases as far as half of the voters
 * vouch for them, losses.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/core/status.h"
#include "tests/unit/rendezvous/core/voter_hand.h"

TEST(test_authority_is_shown_first)
{
    serve(1);
    struct msg m = voter_join(0);
    say(0, &m);
    ck_assert_str_eq(said, "0:prepare 0:lease 0:waiting ");
}

/* Nobody starts workers before it is in force: a first round, once all have
 * accepted. */
TEST(test_round_is_proposed_then_in_force)
{
    propose_to_three(3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(last[i].kind, MSG_KIND_world);
        ck_assert_int_eq(last[i].world.pending, 1);
        ck_assert_int_eq(last[i].world.term.count, 1);
    }
    accepts(0, 1);
    ck_assert_str_eq(said, "");
    accepts(1, 1);
    ck_assert_str_eq(said, "");
    accepts(2, 1);
    ck_assert(noted("sealed"));
    ck_assert_str_eq(said, "0:go 1:go 2:go ");
}

TEST(test_all_run_once_it_is_in_force)
{
    round_of(3, 2, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert(voters[i].runs);
        ck_assert_str_eq(voters[i].accepted.before, "");
        ck_assert_int_eq(voters[i].holds.term.count, 1);
    }
}

/* Who votes, and where they would serve. */
/* A leader elsewhere has a lease to tell a server that was just started. */
TEST(test_founding_waits_a_lease_for_who_leads)
{
    limits_of(1, 3);
    like.last_call_ms = 0;
    server_began_us = now_us;
    serve(1);
    come_all(0, 1);
    goes_on((like.heartbeat_ms - 100) * MONO_MS);
    ck_assert_int_eq(running(), 0);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(running(), 2);
}

/* If all are here nobody runs elsewhere. */
TEST(test_founding_with_all_nodes_is_at_once)
{
    limits_of(1, 3);
    like.last_call_ms = 0;
    serve(1);
    come_all(0, 2);
    goes_on(100 * MONO_MS);
    ck_assert_int_eq(running(), 3);
}

TEST(test_voters_are_told_with_their_addresses)
{
    round_of(2, 2, 2);
    ck_assert_str_eq(voters[1].accepted.ids, voter_ids("01"));
    ck_assert_str_eq(voters[1].accepted.addrs,
                     "10.0.0.1:29600 10.0.0.1:29601 ");
}

/* A round of one, which nobody else voted in, waits for nobody. */
TEST(test_round_of_one_begins_at_once)
{
    limits_of(1, 1);
    serve(1);
    struct msg m = voter_join(0);
    say(0, &m);
    ck_assert(told(0, "world") && !told(0, "go"));
    ck_assert_int_eq(last[0].world.pending, 0);
}

/* -- losses ---------------------------------------------------------------- */

TEST(test_lost_node_is_left_out)
{
    int64_t before = round_of(3, 2, 3);
    dies(2);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_eq(voters[0].holds.group_world, 2);
}

/* Killed with farewells, most of them: the rest goes on. */
TEST(test_votes_of_the_killed_stand)
{
    round_of(4, 1, 4);
    dies(3);
    dies(2);
    dies(1);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(running(), 1);
    ck_assert_int_eq(voters[0].holds.group_world, 1);
}

/* Silent, most of them: the rest may not, and is told why. */
TEST(test_without_half_of_the_voters_nothing_runs)
{
    round_of(3, 1, 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(4 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    ck_assert_int_eq(last[0].kind == MSG_KIND_waiting ||
                         last[0].kind == MSG_KIND_prepare,
                     true);
    goes_on(40 * MONO_S);
    ck_assert_int_eq(running(), 0);
}

/* Half is enough to go on. */
TEST(test_half_of_the_voters_go_on)
{
    int64_t before = round_of(4, 1, 4);
    voters[2].silent = voters[3].silent = true;
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}

/* A server that was held up for long asks again, in the same term; in a strict
 * run others may have gone on meanwhile, and it begins another line. */
TEST_LOOP(test_server_that_froze_asks_again, 1, 3)
{
    int64_t before = round_of(3, _i, 3);
    now_us += 5 * HEARTBEAT;
    tick(5 * HEARTBEAT);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert((voters[0].promised.count == 1) == (_i == 1));
    ck_assert((voters[0].promised.count >= AUTHORITY_LEAP) == (_i == 2));
    ck_assert_int_eq(newest_round(), before + 1);
}

/* No lease reaches beyond the echo of half. */
TEST(test_lease_ends_with_the_voters)
{
    round_of(3, 1, 3);
    goes_on(HEARTBEAT);
    int64_t cut_us = now_us;
    voters[1].silent = voters[2].silent = true;
    for (int k = 0; k < 20; k++) {
        goes_on(50 * MONO_MS);
        ck_assert_int_le(voters[0].lease_until_us, cut_us + HEARTBEAT);
    }
}

/* -- a proposal that fails ------------------------------------------------- */

TEST(test_proposal_is_given_up_with_its_member)
{
    propose_to_three(2);
    dies(2);
    ck_assert(!noted("sealed"));
    accepts(0, 1); /* was on its way */
    accepts(1, 1);
    ck_assert(!noted("sealed"));
    voters[0].silent = voters[1].silent = false;
    goes_on(500 * MONO_MS);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_eq(newest_round(), 2);
    ck_assert_int_eq(voters[0].holds.group_world, 2);
}

/* -- newcomers ------------------------------------------------------------- */

TEST_LOOP(test_voter_that_comes_late_is_asked, 0, 2)
{
    round_of(4, 3, 4);
    for (int i = 1; i < 4; i++)
        voters[i].silent = true;
    goes_on(HEARTBEAT * 3 / 2); /* they are lost */
    voters[1].silent = false;
    come(1);
    breaks(1);
    come_all(4, 5); /* 0, 4 and 5: enough for a round, and one voter of four */
    goes_on(HEARTBEAT / 5);
    ck_assert_int_eq(running(), 0);
    come(1);
    if (_i == 1) {
        breaks(1);
        come(1);
    }
    goes_on(HEARTBEAT);
    ck_assert_int_ge(running(), 3);
}

TEST(test_newcomer_makes_the_round_larger)
{
    round_of(2, 2, 3);
    come(2);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(newest_round(), 2);
    ck_assert_int_eq(running(), 3);
}

/* It learns where it can go if this server is lost. */
TEST(test_spare_is_told_where_the_voters_are)
{
    round_of(2, 2, 2);
    come(2);
    goes_on(300 * MONO_MS);
    ck_assert(!voters[2].runs);
    dies(0);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(running(), 2);
}

/* Found by losing hosts: one that came while a round ran was told nothing, and
 * never found the next server. Also one that is back. */
TEST_LOOP(test_spare_is_told_at_once_where_the_voters_are, 0, 2)
{
    round_of(3, 3, 3);
    struct msg m = voter_join(4);
    say(4, &m);
    ck_assert(told(4, "voters") && told(4, "waiting"));
    if (_i == 1) {
        closed(4, false);
        say(5, &m);
        ck_assert(told(5, "voters") && told(5, "waiting"));
    }
}

/* Found by losing servers one after the other: one that was at the next server
 * when it was elected was told of no address, and found no server after it. */
TEST(test_newcomer_is_told_by_the_next_server_where_the_voters_are)
{
    round_of(2, 2, 2);
    serve(2);
    come(4);
    come(0);
    told_addrs[4][0] = '\0';
    come(1);
    ck_assert_int_eq(voters[1].promised.count, 2);
    ck_assert_str_eq(told_addrs[4], "10.0.0.1:29600 10.0.0.1:29601 ");
}

/* A voter that is back while the newest round may not have been in force hears
 * where the others are, but not that it was. */
TEST(test_round_in_doubt_is_not_said_to_be_in_force)
{
    int64_t in_doubt = doubt_of(3, 2, 3);
    serve(2);
    come_all(0, 1);
    ck_assert_int_eq(voters[0].promised.count, 2);
    breaks(0);
    come(0);
    ck_assert_int_eq(voters[0].accepted.round, in_doubt);
    ck_assert_str_ne(voters[0].accepted.before, "");
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}

/* -- the end --------------------------------------------------------------- */

TEST(test_end_is_final_once_half_know)
{
    like.heartbeat_ms = 10000;
    round_of(3, 3, 3);
    voters[2].silent = true;
    for (int i = 0; i < 3; i++) {
        struct msg m = {.kind = MSG_KIND_ready,
                        .ready = {.round = 1, .done = 1}};
        say(i, &m);
    }
    ck_assert_int_eq(last[0].end.hold, 1);
    struct msg m = {.kind = MSG_KIND_leave, .leave.what = MSG_LEAVE_ENDED};
    say(0, &m);
    pass(HEARTBEAT);
    ck_assert_int_eq(last[1].end.hold, 1); /* 1 of 3 said bye */
    say(1, &m);
    pass(HEARTBEAT);
    ck_assert_int_eq(last[1].end.hold, 0);
}

/* One of two is half. The other one, be it silent, away or dead, is not more
 * than half: it cannot go on alone. */
TEST_LOOP(test_end_of_two_is_final_once_one_knows, 0, 3)
{
    struct msg m = {.kind = MSG_KIND_ready, .ready.done = 1};
    round_of(2, 1, 2);
    m.ready.round = newest_round();
    voters[1].silent = true;
    say(0, &m);
    say(1, &m);
    ck_assert_int_eq(last[0].end.hold, 1);
    if (_i == 1)
        breaks(1);
    if (_i == 2)
        dies(1);
    goes_on(HEARTBEAT * 3 / 4);
    ck_assert_int_eq(voters[0].status, 0);
    ck_assert(!voters[0].ended);
}

/* Whose launchers died before they knew of the end are waited for no more. */
TEST(test_end_is_final_without_the_dead)
{
    round_of(3, 3, 3);
    breaks(1);
    breaks(2);
    leave(0, true);
    ck_assert_int_eq(last[0].end.hold, 1);
    dies(1); /* one of two is half */
    ck_assert_int_eq(last[0].kind, MSG_KIND_end);
    ck_assert_int_eq(last[0].end.hold, 0);
}

/* The one node that is left is not half of the voters: they may be elsewhere.
 */
TEST(test_end_of_a_node_alone_is_no_final_one)
{
    round_of(3, 1, 3);
    voters[0].silent = voters[2].silent = true;
    goes_on(HEARTBEAT / 2);
    breaks(0);
    breaks(2);
    goes_on(2 * HEARTBEAT);
    order_end("r");
    ck_assert(told(ORDERS, "refused")); /* it would end nothing */
    leave(1, true);
    pass(HEARTBEAT);
    ck_assert_int_eq(last[1].kind, MSG_KIND_end);
    ck_assert_int_eq(last[1].end.hold, 1);
}

/* No two terms of a server are equal, also if it has forgotten the run: what
 * was promised and accepted then is none of the new one. */
TEST(test_term_is_never_used_again)
{
    struct term before;
    round_of(2, 2, 2);
    before = voters[0].promised;
    dies(0);
    dies(1);
    pass(120 * MONO_S);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
    come_all(0, 1);
    goes_on(HEARTBEAT / 5);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_gt(voters[0].promised.count, before.count);
}

/* A minority ends no run that others may go on with. */
TEST(test_minority_does_not_end_the_run)
{
    like.join_ms = 5000;
    round_of(3, 2, 3);
    voters[1].silent = voters[2].silent = true;
    for (int i = 0; i < 30; i++) {
        goes_on(HEARTBEAT);
        ck_assert(!noted("ended"));
        ck_assert_int_ne(last[0].kind, MSG_KIND_end);
    }
    dies(0);
    pass(60 * MONO_S);
    ck_assert_int_eq(rdzv_live_runs(rdzv), 0);
}

/* A fifth of a lease is for clocks that differ, and for killing workers: the
 * server counts on a lease from when it has processed the beat. */
TEST(test_lease_has_a_margin_for_clocks)
{
    round_of(3, 2, 3);
    for (int i = 0; i < 20; i++) {
        goes_on(100 * MONO_MS);
        for (int k = 0; k < 3; k++)
            ck_assert_int_le(granted[k].grant_ms, 800);
    }
    ck_assert_int_ge(granted[0].grant_ms, 600); /* two beats of 100 ms less */
}

/* The server ends with its launcher: it says nothing to the others, who may go
 * on by what they hold. */
TEST(test_server_does_nothing_about_its_own_end)
{
    limits_of(2, 2);
    embedded_server = true;
    serve(1);
    struct msg m = voter_join(0);
    m.join.hosts = 1;
    step(&(struct rdzv_event){.kind = RDZV_MSG,
                              .conn = 0,
                              .msg = &m,
                              .peer_addr = "10.0.0.9",
                              .here_addr = "10.0.0.9"});
    m = voter_join(1);
    say(1, &m);
    ck_assert(noted("proposed"));
    closed(0, true);
    ck_assert(noted("absent") && !noted("lost"));
    ck_assert_str_eq(said, "38:drop "); /* the guard's */
}

/* -- its own launcher leaves ----------------------------------------------- */

/* Agents 0 to n-1 run; the server belongs to the launcher of agent 0, if that
 * comes `from` here. */
static void serve_for_agent_0(int n, int min, const char *from)
{
    limits_of(min, n);
    embedded_server = true;
    like.last_call_ms = 60000;
    serve(1);
    like.hosts = 1;
    comes_from = from;
    come(0);
    like.hosts = 0;
    comes_from = "10.0.0.1";
    come_all(1, n - 1);
    ck_assert_int_eq(running(), n);
}

/* It stays until the next round is in force, and all of its voters know. What
 * comes from it meanwhile means nothing. */
TEST(test_own_launcher_goes_once_the_next_round_is_known)
{
    serve_for_agent_0(3, 1, HAND_HERE);
    goes_on(100 * MONO_MS); /* a beat of each, and a lease */
    for (int i = 0; i < 3; i++)
        voters[i].silent = true;
    leave(0, false);
    ready(1, 1);
    ready(0, 1);
    ck_assert(!told(0, "drop") && !noted("proposed"));
    beat_of(0, 9, 8, 1);
    ready(0, 1);
    ck_assert_str_eq(said, "");
    ready(2, 1);
    ck_assert(noted("proposed"));
    now_us += MONO_MS;
    accepts(1, 2);
    ck_assert(!noted("sealed")); /* 1 of 3: it votes until its farewell */
    accepts(2, 2);
    ck_assert(noted("sealed"));
    ck_assert_str_eq(said, "1:go 2:go 1:prepare 2:prepare ");
    promise_of(1);
    ck_assert_str_eq(said, "");
    promise_of(2);
    ck_assert_str_eq(said, "0:go ");
    ck_assert_int_eq(last[0].go.round, 2);
    closed(0, true);
    ck_assert_str_eq(said, "38:drop "); /* the guard's */
    ck_assert(!noted("lost") && !noted("round_over"));
}

/* No other round comes, so that there is nothing to wait for. */
TEST(test_own_launcher_goes_if_too_few_are_left)
{
    serve_for_agent_0(2, 2, HAND_HERE);
    leave(0, false);
    ready(1, 1);
    ready(0, 1);
    ck_assert(told(0, "go"));
    ck_assert_int_eq(last[0].go.round, 1);
}

/* A run that had no round yet is begun anew elsewhere. */
TEST(test_own_launcher_goes_from_a_run_without_a_round)
{
    limits_of(2, 3);
    embedded_server = true;
    serve(1);
    like.hosts = 1;
    comes_from = HAND_HERE;
    come(0);
    leave(0, false);
    ck_assert(told(0, "drop"));
}

/* Without its server, any other launcher may go at once. */
TEST_LOOP(test_other_launchers_need_not_wait, 0, 2)
{
    serve_for_agent_0(3, 1, "10.0.0.2");
    int who = _i;
    for (int i = 0; i < 3; i++)
        voters[i].silent = true;
    leave(who, false);
    ready(who, 1);
    ck_assert(told(who, "drop"));
}

/* -- what is shown --------------------------------------------------------- */

TEST(test_status_tells_of_the_voters)
{
    struct status_run run;
    struct status_node node;
    struct status_total total;
    int order[VOTERS];
    round_of(3, 2, 3);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(status_runs(rdzv, order), 1);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(run.authority.leads && run.authority.may_act);
    ck_assert_int_eq(run.authority.term, 1);
    ck_assert_int_eq(run.authority.voters, 3);
    ck_assert_int_eq(run.authority.here, 3);
    ck_assert_int_eq(run.authority.answer, 3);
    ck_assert_int_eq(status_nodes(rdzv, order[0], order), 3);
    status_node(rdzv, order[1], now_us, &node);
    ck_assert(node.votes);
    ck_assert_int_eq(node.serve_port, 29601);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    (void)status_runs(rdzv, order);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(run.authority.leads && !run.authority.may_act);
    ck_assert_int_eq(run.authority.answer, 1);
    serve(2);
    come(0);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(!run.authority.leads);
    ck_assert_int_eq(run.authority.term, 0);
    ck_assert_int_eq(run.authority.here, 1);
    voters[1].silent = false;
    come(1);
    status_total(rdzv, &total);
    ck_assert_int_eq(total.takeovers, 1);
}

/* -- who are no voters ----------------------------------------------------- */

TEST_LOOP(test_agent_without_an_id_is_refused, 0, 4)
{
    static const char *const bad[] = {"", "0123", "0123456789ABCDEF0",
                                      "0123456789abcde 0"};
    serve(1);
    struct msg m = voter_join(0);
    msg_set(m.join.agent, bad[_i]);
    say(0, &m);
    ck_assert(told(0, "refused") && told(0, "drop"));
}

/* It would have another one's vote. */
TEST(test_agent_with_a_voters_id_is_refused)
{
    round_of(2, 2, 3);
    struct msg m = voter_join(4);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%.16sffff",
                   voter_id(0));
    say(4, &m);
    ck_assert(told(4, "refused") && told(4, "drop"));
}

HAND_SUITE("rdzv_votes")
