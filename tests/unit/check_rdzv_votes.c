/* links: tests/unit/voter_hand tests/unit/rdzv_hand */
/* libs: -lcjson */
/*
 * A server in office: rounds in two steps, leases as far as half of the voters
 * vouch for them, losses.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/core/status.h"
#include "tests/unit/voter_hand.h"

START_TEST(test_office_is_shown_first)
{
    serve(1);
    struct msg m = voter_join(0);
    say(0, &m);
    ck_assert_str_eq(said, "0:office 0:lease 0:waiting ");
}
END_TEST

/* Nobody starts workers before it is in force: a first round, once all have
 * accepted. */
START_TEST(test_round_is_proposed_then_in_force)
{
    propose_to_three(3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(last[i].kind, MSG_KIND_world);
        ck_assert_int_eq(last[i].world.pending, 1);
        ck_assert_int_eq(last[i].world.epoch, 1);
    }
    accepts(0, 1);
    ck_assert_str_eq(said, "");
    accepts(1, 1);
    ck_assert_str_eq(said, "");
    accepts(2, 1);
    ck_assert(noted("sealed"));
    ck_assert_str_eq(said, "0:go 1:go 2:go ");
}
END_TEST

START_TEST(test_all_run_once_it_is_in_force)
{
    round_of(3, 2, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert(voters[i].runs);
        ck_assert_str_eq(voters[i].accepted.before, "");
        ck_assert_int_eq(voters[i].holds.epoch, 1);
    }
}
END_TEST

/* Who votes, and where they would serve. */
/* A leader elsewhere has a lease to tell a server that was just started. */
START_TEST(test_founding_waits_a_lease_for_who_leads)
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
END_TEST

/* If all are here nobody runs elsewhere. */
START_TEST(test_founding_with_all_nodes_is_at_once)
{
    limits_of(1, 3);
    like.last_call_ms = 0;
    serve(1);
    come_all(0, 2);
    goes_on(100 * MONO_MS);
    ck_assert_int_eq(running(), 3);
}
END_TEST

START_TEST(test_voters_are_told_with_their_addresses)
{
    round_of(2, 2, 2);
    ck_assert_str_eq(voters[1].accepted.ids, voter_ids("01"));
    ck_assert_str_eq(voters[1].accepted.addrs,
                     "10.0.0.1:29600 10.0.0.1:29601 ");
}
END_TEST

/* A round of one, which nobody else voted in, waits for nobody. */
START_TEST(test_round_of_one_begins_at_once)
{
    limits_of(1, 1);
    serve(1);
    struct msg m = voter_join(0);
    say(0, &m);
    ck_assert(told(0, "world") && !told(0, "go"));
    ck_assert_int_eq(last[0].world.pending, 0);
}
END_TEST

/* -- losses ---------------------------------------------------------------- */

START_TEST(test_lost_node_is_left_out)
{
    int64_t before = round_of(3, 2, 3);
    dies(2);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_eq(voters[0].holds.group_world, 2);
}
END_TEST

/* Killed with farewells, most of them: the rest goes on. */
START_TEST(test_votes_of_the_killed_stand)
{
    round_of(4, 1, 4);
    dies(3);
    dies(2);
    dies(1);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(running(), 1);
    ck_assert_int_eq(voters[0].holds.group_world, 1);
}
END_TEST

/* Silent, most of them: the rest may not, and is told why. */
START_TEST(test_without_half_of_the_voters_nothing_runs)
{
    round_of(3, 1, 3);
    voters[1].silent = voters[2].silent = true;
    goes_on(4 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    ck_assert_int_eq(last[0].kind == MSG_KIND_waiting ||
                         last[0].kind == MSG_KIND_office,
                     true);
    goes_on(40 * MONO_S);
    ck_assert_int_eq(running(), 0);
}
END_TEST

/* Half is enough to go on. */
START_TEST(test_half_of_the_voters_go_on)
{
    int64_t before = round_of(4, 1, 4);
    voters[2].silent = voters[3].silent = true;
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}
END_TEST

/* A server that was held up for long asks again, in the same epoch. */
START_TEST(test_server_that_froze_asks_again)
{
    int64_t before = round_of(3, 2, 3);
    now_us += 5 * HEARTBEAT;
    tick(5 * HEARTBEAT);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_eq(voters[0].promised.count, 1);
    ck_assert_int_gt(newest_round(), before);
}
END_TEST

/* No lease reaches beyond the echo of half. */
START_TEST(test_lease_ends_with_the_voters)
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
END_TEST

/* -- a proposal that fails ------------------------------------------------- */

START_TEST(test_proposal_is_given_up_with_its_member)
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
END_TEST

/* -- newcomers ------------------------------------------------------------- */

START_TEST(test_voter_that_comes_late_is_asked)
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
END_TEST

START_TEST(test_newcomer_makes_the_round_larger)
{
    round_of(2, 2, 3);
    come(2);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(newest_round(), 2);
    ck_assert_int_eq(running(), 3);
}
END_TEST

/* It learns where it can go if this server is lost. */
START_TEST(test_spare_is_told_where_the_voters_are)
{
    round_of(2, 2, 2);
    come(2);
    goes_on(300 * MONO_MS);
    ck_assert(!voters[2].runs);
    dies(0);
    goes_on(300 * MONO_MS);
    ck_assert_int_eq(running(), 2);
}
END_TEST

/* Found by losing hosts: one that came while a round ran was told nothing, and
 * never found the next server. Also one that is back. */
START_TEST(test_spare_is_told_at_once_where_the_voters_are)
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
END_TEST

/* Found by losing servers one after the other: one that was at the next server
 * when it took office was told of no address, and found no server after it. */
START_TEST(test_newcomer_is_told_by_the_next_server_where_the_voters_are)
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
END_TEST

/* A voter that is back while the newest round may not have been in force hears
 * where the others are, but not that it was. */
START_TEST(test_round_in_doubt_is_not_said_to_be_in_force)
{
    int64_t before = round_of(3, 2, 3);
    for (int i = 0; i < 3; i++) {
        voters[i].pending = voters[i].holds;
        voters[i].pending.round = voters[i].accepted.round = before + 1;
        msg_set(voters[i].accepted.before, voters[i].accepted.ids);
        voters[i].runs = false;
        voters[i].ready = true;
    }
    serve(2);
    come_all(0, 1);
    ck_assert_int_eq(voters[0].promised.count, 2);
    breaks(0);
    come(0);
    ck_assert_int_eq(voters[0].accepted.round, before + 1);
    ck_assert_str_ne(voters[0].accepted.before, "");
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}
END_TEST

/* -- the end --------------------------------------------------------------- */

START_TEST(test_end_is_final_once_half_know)
{
    like.heartbeat_ms = 10000;
    round_of(3, 3, 3);
    voters[2].silent = true;
    for (int i = 0; i < 3; i++) {
        struct msg m = {.kind = MSG_KIND_done, .done.round = 1};
        say(i, &m);
    }
    ck_assert_int_eq(last[0].end.hold, 1);
    struct msg m = {.kind = MSG_KIND_bye};
    say(0, &m);
    pass(HEARTBEAT);
    ck_assert_int_eq(last[1].end.hold, 1); /* 1 of 3 said bye */
    say(1, &m);
    pass(HEARTBEAT);
    ck_assert_int_eq(last[1].end.hold, 0);
}
END_TEST

/* One of two is half. The other one, be it silent, away or dead, is not more
 * than half: it cannot go on alone. */
START_TEST(test_end_of_two_is_final_once_one_knows)
{
    struct msg m = {.kind = MSG_KIND_done};
    round_of(2, 1, 2);
    m.done.round = newest_round();
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
END_TEST

/* The one node that is left is not half of the voters: they may be elsewhere.
 */
START_TEST(test_end_of_a_node_alone_is_no_final_one)
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
END_TEST

/* No two epochs of a server are equal, also if it has forgotten the run: what
 * was promised and accepted then is none of the new one. */
START_TEST(test_epoch_is_never_used_again)
{
    struct epoch before;
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
END_TEST

/* A minority ends no run that others may go on with. */
START_TEST(test_minority_does_not_end_the_run)
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
END_TEST

/* A fifth of a lease is for clocks that differ, and for killing workers: the
 * server counts on a lease from when it has processed the beat. */
START_TEST(test_lease_has_a_margin_for_clocks)
{
    round_of(3, 2, 3);
    for (int i = 0; i < 20; i++) {
        goes_on(100 * MONO_MS);
        for (int k = 0; k < 3; k++)
            ck_assert_int_le(granted[k].grant_ms, 800);
    }
    ck_assert_int_ge(granted[0].grant_ms, 600); /* two beats of 100 ms less */
}
END_TEST

/* The server ends with its launcher: it says nothing to the others, who may go
 * on by what they hold. */
START_TEST(test_server_does_nothing_about_its_own_end)
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
END_TEST

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
START_TEST(test_own_launcher_goes_once_the_next_round_is_known)
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
    ck_assert_str_eq(said, "1:go 2:go 1:office 2:office ");
    promise_of(1);
    ck_assert_str_eq(said, "");
    promise_of(2);
    ck_assert_str_eq(said, "0:go ");
    ck_assert_int_eq(last[0].go.round, 2);
    closed(0, true);
    ck_assert_str_eq(said, "38:drop "); /* the guard's */
    ck_assert(!noted("lost") && !noted("round_over"));
}
END_TEST

/* No other round comes, so that there is nothing to wait for. */
START_TEST(test_own_launcher_goes_if_too_few_are_left)
{
    serve_for_agent_0(2, 2, HAND_HERE);
    leave(0, false);
    ready(1, 1);
    ready(0, 1);
    ck_assert(told(0, "go"));
    ck_assert_int_eq(last[0].go.round, 1);
}
END_TEST

/* A run that had no round yet is begun anew elsewhere. */
START_TEST(test_own_launcher_goes_from_a_run_without_a_round)
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
END_TEST

/* Without its server, any other launcher may go at once. */
START_TEST(test_other_launchers_need_not_wait)
{
    serve_for_agent_0(3, 1, "10.0.0.2");
    int who = _i;
    for (int i = 0; i < 3; i++)
        voters[i].silent = true;
    leave(who, false);
    ready(who, 1);
    ck_assert(told(who, "drop"));
}
END_TEST

/* -- what is shown --------------------------------------------------------- */

START_TEST(test_status_tells_of_the_voters)
{
    struct status_run run;
    struct status_node node;
    struct status_total total;
    int order[VOTERS];
    round_of(3, 2, 3);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(status_runs(rdzv, order), 1);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(run.office.held && run.office.may_act);
    ck_assert_int_eq(run.office.epoch, 1);
    ck_assert_int_eq(run.office.voters, 3);
    ck_assert_int_eq(run.office.here, 3);
    ck_assert_int_eq(run.office.answer, 3);
    ck_assert_int_eq(status_nodes(rdzv, order[0], order), 3);
    status_node(rdzv, order[1], now_us, &node);
    ck_assert(node.votes);
    ck_assert_int_eq(node.serve_port, 29601);
    voters[1].silent = voters[2].silent = true;
    goes_on(HEARTBEAT * 3 / 2);
    (void)status_runs(rdzv, order);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(run.office.held && !run.office.may_act);
    ck_assert_int_eq(run.office.answer, 1);
    serve(2);
    come(0);
    status_run(rdzv, order[0], now_us, &run);
    ck_assert(!run.office.held);
    ck_assert_int_eq(run.office.epoch, 0);
    ck_assert_int_eq(run.office.here, 1);
    voters[1].silent = false;
    come(1);
    status_total(rdzv, &total);
    ck_assert_int_eq(total.takeovers, 1);
}
END_TEST

/* -- who are no voters ----------------------------------------------------- */

START_TEST(test_agent_without_an_id_is_refused)
{
    static const char *const bad[] = {"", "0123", "0123456789ABCDEF0",
                                      "0123456789abcde 0"};
    serve(1);
    struct msg m = voter_join(0);
    msg_set(m.join.agent, bad[_i]);
    say(0, &m);
    ck_assert(told(0, "refused") && told(0, "drop"));
}
END_TEST

/* It would have another one's vote. */
START_TEST(test_agent_with_a_voters_id_is_refused)
{
    round_of(2, 2, 3);
    struct msg m = voter_join(4);
    (void)snprintf(m.join.agent, sizeof(m.join.agent), "%.16sffff",
                   voter_id(0));
    say(4, &m);
    ck_assert(told(4, "refused") && told(4, "drop"));
}
END_TEST

int main(void)
{
    const struct hand_test tests[] = {
        {test_office_is_shown_first, 1},
        {test_round_is_proposed_then_in_force, 1},
        {test_all_run_once_it_is_in_force, 1},
        {test_founding_waits_a_lease_for_who_leads, 1},
        {test_founding_with_all_nodes_is_at_once, 1},
        {test_voters_are_told_with_their_addresses, 1},
        {test_round_of_one_begins_at_once, 1},
        {test_lost_node_is_left_out, 1},
        {test_votes_of_the_killed_stand, 1},
        {test_without_half_of_the_voters_nothing_runs, 1},
        {test_half_of_the_voters_go_on, 1},
        {test_server_that_froze_asks_again, 1},
        {test_lease_ends_with_the_voters, 1},
        {test_proposal_is_given_up_with_its_member, 1},
        {test_voter_that_comes_late_is_asked, 2},
        {test_newcomer_makes_the_round_larger, 1},
        {test_spare_is_told_where_the_voters_are, 1},
        {test_spare_is_told_at_once_where_the_voters_are, 2},
        {test_newcomer_is_told_by_the_next_server_where_the_voters_are, 1},
        {test_round_in_doubt_is_not_said_to_be_in_force, 1},
        {test_end_is_final_once_half_know, 1},
        {test_end_of_two_is_final_once_one_knows, 3},
        {test_end_of_a_node_alone_is_no_final_one, 1},
        {test_lease_has_a_margin_for_clocks, 1},
        {test_epoch_is_never_used_again, 1},
        {test_minority_does_not_end_the_run, 1},
        {test_server_does_nothing_about_its_own_end, 1},
        {test_own_launcher_goes_once_the_next_round_is_known, 1},
        {test_own_launcher_goes_if_too_few_are_left, 1},
        {test_own_launcher_goes_from_a_run_without_a_round, 1},
        {test_other_launchers_need_not_wait, 2},
        {test_status_tells_of_the_voters, 1},
        {test_agent_without_an_id_is_refused, 4},
        {test_agent_with_a_voters_id_is_refused, 1},
    };
    return hand_main("rdzv_votes", tests, HAND_LEN(tests));
}
