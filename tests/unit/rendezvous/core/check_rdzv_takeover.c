/* links: tests/unit/rendezvous/core/{voter_hand,rdzv_hand} */
/* libs: -lcjson */
/*
 * A server without memory to which nodes of a run come: when that server is
 * elected, and what it makes of what the nodes tell.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/rendezvous/core/voter_hand.h"

/* The majority comes, and nobody is stopped. */
TEST(test_takeover_by_the_majority_stops_nobody)
{
    int64_t before = round_of(3, 2, 3);
    serve(2);
    come(0);
    ck_assert_int_eq(last[0].kind, MSG_KIND_waiting);
    ck_assert_int_eq(last[0].waiting.voters, 3);
    come(1);
    ck_assert_int_eq(voters[0].promised.count, 2);
    ck_assert_int_eq(voters[1].promised.count, 2);
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before);
    ck_assert_int_eq(running(), 3);
}

/* A minority is asked for nothing and given nothing. */
TEST(test_takeover_is_none_without_the_majority)
{
    round_of(4, 3, 4);
    serve(2);
    come_all(0, 1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 1);
    ck_assert_int_eq(running(), 0);
    ck_assert_int_eq(last[1].kind, MSG_KIND_waiting);
    ck_assert_int_eq(last[1].waiting.voters, 4);
    ck_assert_int_eq(last[1].waiting.voters_here, 2);
}

/* Who is missing may run for as long as the server before may have granted; no
 * longer: 1 s after its last lease. */
TEST(test_takeover_waits_for_leases_of_the_server_before)
{
    int64_t before = round_of(3, 2, 3);
    int64_t end_us = now_us + HEARTBEAT;
    serve(2);
    now_us += 50 * MONO_MS;
    come_all(0, 1);
    goes_on(end_us - now_us - 10 * MONO_MS);
    ck_assert_int_eq(newest_round(), before);
    goes_on(200 * MONO_MS);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}

/* One that comes late fills its place. */
TEST(test_takeover_late_member_goes_on)
{
    int64_t before = round_of(3, 2, 3);
    serve(2);
    come_all(0, 1);
    goes_on(300 * MONO_MS);
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before);
    ck_assert_int_eq(running(), 3);
}

/* By a majority that loses the next server, too. */
TEST(test_takeover_again_and_again)
{
    round_of(3, 3, 3);
    for (int id = 2; id < 6; id++) {
        serve(id);
        come_all(0, 2);
        goes_on(HEARTBEAT);
        ck_assert_int_eq(voters[2].promised.count, id);
    }
    ck_assert_int_eq(newest_round(), 1);
    ck_assert_int_eq(running(), 3);
}

/* -- a round that was proposed when the server was lost -------------------- */

/* Nobody was told to go: another round follows, with another number, once the
 * voters of both have said that they know of no other. */
TEST(test_takeover_of_a_round_that_nobody_began)
{
    propose_to_three(3);
    /* All have it, none was told to go. */
    for (int i = 0; i < 3; i++) {
        voters[i].silent = false;
        voters[i].pending = last[i].world;
        ck_assert_int_eq(voters[i].pending.pending, 1);
        msg_set(voters[i].accepted.ids, voter_ids("012"));
        voters[i].accepted.round = 1;
        voters[i].accepted.term = term_make(1, server_id);
        voters[i].promised.count = 1;
        msg_set(voters[i].promised.id, server_id);
    }
    serve(2);
    come_all(0, 1);
    ck_assert_int_eq(running(), 0);
    come(2);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_gt(newest_round(), 1);
}

/* One of three accepted the second round; it is one of the majority. */
TEST(test_takeover_of_a_round_that_one_accepted)
{
    int64_t before = round_of(3, 1, 3);
    struct msg_voters old = voters[0].accepted;
    struct voter *v = &voters[0];
    v->runs = voters[1].runs = voters[2].runs = false;
    v->ready = voters[1].ready = voters[2].ready = true;
    v->accepted.round = before + 1;
    msg_set(v->accepted.before, old.ids);
    msg_set(v->accepted.ids, voter_ids("05"));
    v->pending = v->holds;
    v->pending.round = before + 1;
    v->pending.group_world = 2;
    v->pending.group_rank = 0;
    serve(2);
    come_all(0, 1);
    /* Of the newest round's two voters one is here: it takes both. */
    ck_assert_int_eq(voters[0].promised.count, 1);
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 1);
    ck_assert_int_eq(running(), 0);
    /* Now the other one. It had accepted that round, too. */
    voters[5] = voters[0];
    voters[5].holds.round = 0;
    voters[5].ready = false;
    voters[5].pending.group_rank = 1;
    come(5);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_gt(newest_round(), before + 2); /* its voters voted again */
}

/* One accepted the first round, the others did not hear of it: they are its
 * voters all the same, and have told all that they know. */
TEST(test_takeover_of_a_first_round_that_one_accepted)
{
    round_of(3, 3, 4);
    like.last_call_ms = 60000;
    for (int i = 0; i < 3; i++) {
        voters[i].pending = voters[i].holds;
        voters[i].holds = (struct msg_world){.round = 0};
        voters[i].runs = false;
        msg_set(voters[i].accepted.before, voters[i].accepted.ids);
    }
    voters[1].accepted.round = voters[2].accepted.round = 0;
    serve(2);
    come_all(1, 2);
    come(0);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_gt(newest_round(), 1);
}

/* One member was told to go: it is in force. */
TEST(test_takeover_of_a_round_that_one_began)
{
    int64_t before = round_of(3, 2, 3);
    for (int i = 1; i < 3; i++) { /* the others were not told */
        voters[i].pending = voters[i].holds;
        voters[i].holds.round--;
        voters[i].runs = false;
        voters[i].ready = true;
        msg_set(voters[i].accepted.before, voters[i].accepted.ids);
    }
    serve(2);
    come_all(0, 2);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_eq(newest_round(), before + 1);
}

/* -- newcomers ------------------------------------------------------------- */

/* They do not begin anew beside a round that runs elsewhere, */
TEST_LOOP(test_takeover_newcomers_wait_beside_a_member, 0, 2)
{
    round_of(3, 2, 4);
    serve(2);
    if (_i == 0) {
        come(0);
        come_all(4, 6);
    } else { /* ... be it that they came first */
        like.last_call_ms = 5000;
        come(4);
        come(0);
        come_all(5, 6);
    }
    goes_on(6 * HEARTBEAT);
    for (int i = 4; i < 7; i++)
        ck_assert_int_eq(voters[i].holds.round, 0);
    /* until it goes. */
    breaks(0);
    goes_on(6 * HEARTBEAT);
    for (int i = 4; i < 7; i++)
        ck_assert(voters[i].runs);
    ck_assert_str_ne(voters[4].holds.instance, voters[1].holds.instance);
}

/* ... nor beside a spare, which knows of one. */
TEST(test_takeover_spares_do_not_begin_anew)
{
    round_of(3, 2, 3);
    struct msg m = voter_join(6);
    serve(2);
    msg_set(m.join.instance, voters[0].holds.instance);
    m.join.round = newest_round();
    say(6, &m);
    come_all(4, 5);
    goes_on(HEARTBEAT / 2);
    ck_assert_int_eq(voters[4].holds.round, 0);
}

/* They are spares, or grow the round, once it was taken over. */
TEST(test_takeover_newcomers_grow_the_round)
{
    int64_t before = round_of(2, 2, 3);
    serve(2);
    come(5);
    come_all(0, 1);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 3);
}

/* -- another server led meanwhile ---------------------------------------- */

/* Nobody knows what it did: all come again, and promise us more. */
TEST(test_takeover_term_is_raised_above_anothers)
{
    round_of(3, 3, 3);
    breaks(0);
    promised_elsewhere(0, 7);
    come(0);
    ck_assert(told(1, "drop"));
    all_dropped();
    come_all(0, 2);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 8);
    ck_assert_int_eq(voters[1].promised.count, 8);
    ck_assert_int_eq(newest_round(), 1);
    ck_assert_int_eq(running(), 3);
}

/* One whose promise never came back here has promised another server more, and
 * comes again: that it obeys nobody else is seen by asking once more. */
TEST(test_takeover_candidate_asks_again_who_promised_another)
{
    round_of(3, 2, 3);
    serve(2);
    come(0);
    voters[1].silent = true;
    come(1);
    ck_assert_int_eq(voters[0].promised.count, 2);
    breaks(1);
    promised_elsewhere(1, 7);
    voters[1].silent = false;
    come(1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 8);
    ck_assert_int_eq(running(), 2);
}

/* What it promised the later one may be counted there: its death here is no
 * vote for this one. */
TEST(test_takeover_farewell_of_who_obeyed_a_later_server_is_no_vote)
{
    round_of(4, 1, 4);
    for (int i = 1; i < 4; i++)
        voters[i].silent = true;
    goes_on(2 * HEARTBEAT); /* they are lost */
    ck_assert_int_eq(running(), 0);
    voters[3].silent = false;
    voters[3].promised = (struct term){.count = 7, .id = "00000000000000ff"};
    come(3);
    dies(3);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
}

/* The last word of a launcher that was started with other options (the run was
 * submitted again) is of no round of this run. It strikes nobody, and is looked
 * at once: each look again once kept the server busy for ever. */
TEST(test_takeover_farewell_of_a_run_of_another_size_is_none_of_ours)
{
    round_of(3, 2, 3);
    struct msg m = last_word(0);
    msg_set(m.vote.agent, voter_id(6));
    m.vote.round_term.count = m.vote.term.count = 9;
    m.vote.group_world = 5; /* of at most 3 */
    serve(2);
    come(0);
    say(GUARDS, &m);
    come_all(1, 2);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
}

/* A node that has gone over to another instance of the run is no member of this
 * one, and runs on no lease of ours. */
TEST(test_takeover_member_of_another_instance_is_none_of_ours)
{
    int64_t before = round_of(3, 2, 3);
    breaks(0);
    msg_set(voters[0].holds.instance, "77777777777777777777777777777777");
    voters[0].holds.round = 9;
    voters[0].accepted.round = 0;
    voters[0].lease_until_us = now_us + HEARTBEAT / 2;
    int64_t until_us = voters[0].lease_until_us;
    come(0);
    ck_assert_int_eq(voters[0].lease_until_us, until_us);
    voters[0] = (struct voter){.here = false};
    goes_on(HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(running(), 2);
}

/* All nodes of a run fell silent at once: they may have been cut off, and have
 * another leader, who is to be heard of before a newcomer begins the run anew.
 * Those that said farewell, or cannot be half of a strict run, are not waited
 * for. */
TEST_LOOP(test_takeover_of_who_fell_silent_is_waited_for, 0, 3)
{
    round_of(3, _i == 2 ? 2 : 1, 3);
    for (int i = 0; i < 3; i++) {
        if (_i == 1)
            dies(i);
        else
            breaks(i);
    }
    goes_on(HEARTBEAT + 100 * MONO_MS); /* the leases are over */
    come(5);
    if (_i == 0) {
        goes_on(800 * MONO_MS);
        ck_assert_int_eq(running(), 0);
        breaks(5); /* it hears of no lease, and looks elsewhere */
        goes_on(1200 * MONO_MS);
        come(5);
    }
    if (_i == 2)
        come(4);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), _i == 2 ? 2 : 1);
}

/* A run begins only where the first address of the list leads to, or it would
 * in two places: unless it needs more than half of its nodes, which have not
 * obeyed a server with rounds of it. (From one that waits for its voters they
 * would go to and fro for ever.) */
TEST_LOOP(test_takeover_run_begins_at_the_first_address, 0, 4)
{
    limits_of(_i == 0 ? 1 : 2, _i == 0 ? 2 : 3);
    like.last_call_ms = 0;
    serve(1);
    if (_i == 1) {
        like.via = 1;
        come_all(4, 5);
        goes_on(HEARTBEAT);
        ck_assert_int_eq(running(), 2);
        return;
    }
    like.via = _i == 2 ? 31 : 1; /* 31: at a voter's it does not */
    if (_i == 3)
        msg_set(like.term_of, "77777777777777777777777777777777");
    come_all(4, 5);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    ck_assert_int_eq(voters[4].promised.count, 0);
    ck_assert_int_eq(last[4].kind, MSG_KIND_waiting);
    like.via = 0;
    breaks(5);
    come(5);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}

/* Found by the simulator: this server took a node for lost, which ran on a
 * lease of another one that led meanwhile. Its lease is waited for.
 */
TEST(test_takeover_again_waits_for_leases_of_the_one_between)
{
    int64_t before = round_of(3, 1, 3);
    voters[0].silent = voters[1].silent = true;
    goes_on(2 * HEARTBEAT);
    for (int i = 0; i < 2; i++) { /* they were elsewhere, and still ran */
        promised_elsewhere(i, 7);
        voters[i].silent = false;
        voters[i].runs = true;
        voters[i].answered_us = now_us;
        voters[i].lease_until_us = now_us + HEARTBEAT;
    }
    come(1);
    ck_assert(noted("outdated"));
    all_dropped();
    come_all(1, 2);
    goes_on(HEARTBEAT * 8 / 10);
    ck_assert_int_eq(newest_round(), before);
    goes_on(HEARTBEAT);
    ck_assert_int_gt(newest_round(), before);
}

/* Not for the asking of a stranger. */
TEST(test_takeover_term_is_not_raised_for_an_absurd_one)
{
    round_of(2, 2, 3);
    promised_elsewhere(5, 900000000000000);
    come(5);
    goes_on(HEARTBEAT);
    ck_assert_int_lt(voters[0].promised.count, 2000000);
    ck_assert_int_eq(running(), 2);
}

/* It sealed a round: what is known here is worth nothing. */
TEST_LOOP(test_takeover_elsewhere_outdates_this_server, 0, 2)
{
    round_of(3, 2, 3);
    breaks(0);
    struct voter *v = &voters[0];
    promised_elsewhere(0, 7);
    v->accepted.round = v->holds.round + (_i == 0);
    v->accepted.term = term_make(7, ELSEWHERE);
    msg_set(v->accepted.before, v->accepted.ids);
    v->pending = v->holds;
    v->pending.round = v->accepted.round;
    v->answered_us = now_us;
    come(0);
    ck_assert(noted("outdated"));
    ck_assert(told(1, "drop") && told(2, "drop"));
    all_dropped();
    come_all(0, 2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    ck_assert_int_ge(voters[0].promised.count, 8);
}

/* -- what members say before ----------------------------------------------- */

/* A failure that is told before the server is the leader is charged. */
TEST(test_takeover_failure_that_was_told_before_counts)
{
    round_of(2, 2, 2);
    serve(2);
    voters[0].runs = false;
    voters[0].ready = true;
    come(0);
    struct msg m = {.kind = MSG_KIND_failed};
    m.failed = (struct msg_failed){.round = 1, .rank = 0, .pid = 7, .code = 9};
    say(0, &m);
    come(1);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(newest_round(), 2);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_eq(voters[0].holds.restarts, 1);
    ck_assert_int_eq(voters[0].accepted.restarts, 1);
}

TEST(test_takeover_node_that_left_before_is_gone)
{
    int64_t before = round_of(3, 2, 3);
    serve(2);
    come(2);
    leave(2, false);
    is_ready(2);
    come_all(0, 1);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(newest_round(), before + 1);
    ck_assert_int_eq(voters[0].holds.group_world, 2);
}

/* Its end was told to one; it is told to all. */
TEST(test_takeover_end_that_was_told_is_completed)
{
    round_of(3, 2, 3);
    was_told_to_end(0, 5);
    serve(2);
    come_all(0, 1);
    ck_assert_int_eq(last[1].kind, MSG_KIND_end);
    ck_assert_int_eq(last[1].end.status, 5);
    come(2);
    ck_assert_int_eq(last[2].kind, MSG_KIND_end);
}

/* One that comes when the run goes on without it may go, and is not told that
 * the run ended so. */
TEST_LOOP(test_takeover_end_that_nobody_else_heard_is_void, 0, 3)
{
    round_of(3, 2, 3);
    was_told_to_end(0, 5);
    if (_i == 1) /* of a server before the one that made the round */
        voters[0].ended_by.count = 0;
    if (_i == 2) { /* the end of another instance says nothing of this one */
        msg_set(voters[0].holds.instance, "77777777777777777777777777777777");
        voters[0].accepted.round = 0;
    }
    serve(2);
    if (_i != 1)
        come_all(1, 2);
    come(0);
    if (_i == 1)
        come_all(1, 2);
    ck_assert_int_ne(last[0].kind, MSG_KIND_end);
    ck_assert((last[0].kind == MSG_KIND_refused) == (_i < 2));
    voters[0].here = false;
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}

/* Of a node that obeyed a later server this one cannot know what that did: all
 * come again, and the end is the run's. */
TEST(test_takeover_end_that_a_later_server_said_is_completed)
{
    round_of(3, 2, 3);
    breaks(0);
    voters[0].ended = true;
    voters[0].status = 5;
    voters[0].runs = false;
    voters[0].promised.count = 7;
    voters[0].ended_by = voters[0].promised;
    come(0);
    ck_assert_int_ne(last[0].kind, MSG_KIND_refused);
    for (int i = 0; i < 3; i++)
        voters[i].here = false;
    come_all(0, 2);
    goes_on(HEARTBEAT / 2);
    ck_assert_int_eq(last[0].kind, MSG_KIND_end);
    ck_assert_int_eq(last[0].end.status, 5);
    ck_assert_int_eq(running(), 0);
}

/* -- hostile --------------------------------------------------------------- */

TEST_LOOP(test_takeover_nonsense_is_not_believed, 0, 5)
{
    round_of(3, 3, 3);
    struct msg_voters good = voters[0].accepted;
    struct voter *v = &voters[0];
    if (_i == 0)
        msg_set(v->accepted.ids, "nonsense ");
    else if (_i == 1)
        msg_set(v->accepted.ids, "");
    else if (_i == 2)
        msg_set(v->accepted.before, "x");
    else if (_i == 3)
        v->holds.group_world = v->pending.group_world = 7;
    else
        v->accepted.round = v->holds.round = 1000000000;
    serve(2);
    come(0);
    come(1);
    ck_assert_int_eq(voters[1].promised.count, 1);
    voters[0].accepted = good;
    voters[0].holds = voters[1].holds;
    come(2);
    ck_assert_int_eq(voters[2].promised.count, 2);
}

/* A stranger tells of a run in which it has a vote, in a term beyond belief,
 * and is gone: what is begun then is begun in a term as any other. */
TEST(test_takeover_terms_are_not_used_up_by_a_stranger)
{
    struct voter *v = &voters[5];
    limits_of(2, 2);
    serve(1);
    come(0);
    promised_elsewhere(5, AUTHORITY_COUNT_MAX);
    v->accepted.round = v->holds.round = 1;
    v->accepted.term = v->promised;
    v->holds.group_world = v->accepted.group_world = 2;
    (void)snprintf(v->holds.instance, sizeof(v->holds.instance), "%032x", 7);
    msg_set(v->accepted.instance, v->holds.instance);
    msg_set(v->accepted.ids, voter_ids("56"));
    come(5);
    ck_assert_int_eq(last[5].kind, MSG_KIND_waiting);
    breaks(5);
    come(1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
    ck_assert_int_lt(voters[0].promised.count, 2000000);
}

/* The order of an operator belongs where the run is served. */
TEST(test_takeover_orders_are_refused_before)
{
    round_of(3, 3, 3);
    serve(2);
    come(0);
    order_end("r");
    ck_assert(told(ORDERS, "refused"));
    order_drain("r", "n0", true);
    ck_assert(told(ORDERS, "refused"));
}

/* -- an operator ----------------------------------------------------------- */

/* A server without memory has one voter of three: it goes on with that once an
 * operator says so, in a term of its own. Only to ask changes nothing. */
TEST(test_takeover_operator_gives_up_a_majority)
{
    round_of(3, 1, 3);
    int64_t before = newest_round();
    serve(2);
    come(0);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    order_go_on("r", false);
    ck_assert(told(ORDERS, "answered") && !noted("ordered"));
    ck_assert_ptr_nonnull(strstr(last[ORDERS].answered.text, "2 of the 3"));
    goes_on(HEARTBEAT);
    ck_assert_int_eq(voters[0].promised.count, 1);
    order_go_on("r", true);
    ck_assert(told(ORDERS, "answered") && noted("ordered"));
    goes_on(2 * HEARTBEAT);
    ck_assert_int_gt(voters[0].promised.count, 2); /* both leap */
    int64_t alone = newest_round();
    ck_assert_int_gt(alone, before + 1);
    ck_assert_int_eq(running(), 1);
    /* The others live: they get a place of a later round. */
    come(1);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), alone + 1);
    ck_assert_int_eq(running(), 2);
}

/* The leader lost its voters: the same, and its term counts on. */
TEST(test_takeover_operator_gives_up_who_left_the_leader)
{
    round_of(3, 1, 3);
    int64_t before = newest_round();
    breaks(1);
    breaks(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    order_go_on("r", true);
    goes_on(2 * HEARTBEAT);
    ck_assert_int_gt(voters[0].promised.count, 1);
    ck_assert_int_gt(newest_round(), before);
    ck_assert_int_eq(running(), 1);
}

/* ... and its promise of the next term is waited for: one of those that were
 * given up had promised another server still more, and dies. Nobody knows what
 * that server did: all come again. */
TEST(test_takeover_who_was_given_up_had_promised_more)
{
    round_of(3, 1, 3);
    breaks(1);
    breaks(2);
    goes_on(3 * HEARTBEAT);
    voters[0].silent = true;
    order_go_on("r", true);
    promised_elsewhere(1, 30 * AUTHORITY_LEAP);
    dies(1);
    ck_assert(noted("outdated"));
    all_dropped();
    voters[0].silent = false;
    come(0);
    come(2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(running(), 2);
}

/* One that was given up comes back before anything follows: it counts by
 * itself again, and so does its silence. */
TEST(test_takeover_given_up_voter_that_comes_counts_for_itself)
{
    round_of(3, 3, 3); /* the round goes on with all three, or not at all */
    serve(2);
    come(0);
    order_go_on("r", true);
    goes_on(200 * MONO_MS);
    come_all(1, 2);
    goes_on(HEARTBEAT);
    ck_assert_int_eq(running(), 3);
    breaks(1);
    breaks(2);
    goes_on(40 * HEARTBEAT);
    ck_assert_int_eq(running(), 0);
    order_go_on("r", false); /* has something to say again */
    ck_assert(told(ORDERS, "answered"));
}

/* Where nobody is missing, nobody is here, or no round was. */
TEST(test_takeover_operator_is_refused)
{
    round_of(3, 2, 3);
    order_go_on("r", true);
    ck_assert(told(ORDERS, "refused") && noted("order_refused"));
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_USAGE);
    ck_assert_ptr_nonnull(strstr(last[ORDERS].refused.text, "3 of its 3"));
    order_go_on("another", true);
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_PEER);
    serve(2);
    order_go_on("r", true);
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_PEER);
    come(5); /* knows of no round */
    order_go_on("r", true);
    ck_assert_int_eq(last[ORDERS].refused.code, DDP_E_USAGE);
}

/* A newcomer was drained before the first member came: it answers as ever, and
 * the others go on. */
TEST(test_takeover_after_a_newcomer_was_drained)
{
    round_of(3, 3, 4);
    serve(2);
    like.last_call_ms = 5000;
    come(4);
    voters[4].silent = true;
    order_drain("r", "n4", true);
    ck_assert(told(4, "drain"));
    come(0);
    struct msg m = {.kind = MSG_KIND_leave};
    say(4, &m);
    come_all(1, 2);
    goes_on(3 * HEARTBEAT);
    ck_assert_int_eq(newest_round(), 1);
    ck_assert_int_eq(running(), 3);
}

HAND_SUITE("rdzv_takeover")
