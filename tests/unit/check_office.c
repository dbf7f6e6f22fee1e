/* links: rendezvous/core/inner/state/office rendezvous/proto/msg */
/* links: rendezvous/base/err rendezvous/base/mono rendezvous/base/json */
/* links: rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -lcjson */
/*
 * The rule of who leads a run, clause by clause: each test fails if its
 * clause is left out.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/office.h"
#include "tests/lib/suite.h"

#define LEASE (1000 * MONO_MS)
#define ME    "00000000000000ee"

static struct office o;
static int64_t now_us;

/* The id of agent i, all 32 digits. */
static const char *agent(int i)
{
    static char id[4][33];
    static int turn;
    char *text = id[turn++ % 4];
    (void)snprintf(text, 33, "%016x%016x", i + 1, 7);
    return text;
}

/* Agents first to last. */
static struct voters range(int first, int last)
{
    struct voters v = {.n = 0};
    for (int i = first; i <= last; i++)
        voters_add(&v, agent(i));
    return v;
}

static const struct voters nobody;

static void told_of(int64_t epoch,
                    int64_t round,
                    const struct voters *now,
                    const struct voters *before)
{
    struct epoch e = {.count = epoch, .id = "00000000000000aa"};
    office_hear(&o, &e);
    (void)office_adopt(&o, &e, round, now, before);
}

/* Round 1 of agents 0 to n-1, in epoch 1, in force. */
static void setup_round(int n)
{
    struct voters v = range(0, n - 1);
    told_of(1, 1, &v, &nobody);
}

static void here(int first, int last)
{
    for (int i = first; i <= last; i++)
        office_here(&o, agent(i));
}

static void ask(void)
{
    office_ask(&o, ME);
    for (int i = 0; i < 40; i++)
        (void)office_asks(&o, agent(i), now_us);
}

static void promise(int first, int last)
{
    for (int i = first; i <= last; i++)
        office_promise(&o, agent(i));
}

static void accepts(int first, int last, int64_t round)
{
    for (int i = first; i <= last; i++)
        office_accept(&o, agent(i), round);
}

static bool may_act(void)
{
    return office_may_act(&o, now_us, LEASE);
}

/* By the promises of all of them. */
static void win(int first, int last)
{
    here(first, last);
    ask();
    promise(first, last);
    ck_assert(office_is_won(&o));
    office_win(&o);
    office_check(&o);
}

/* In office of a run that has had no round. */
static void begin(void)
{
    office_ask(&o, ME);
    ck_assert(office_is_won(&o));
    office_win(&o);
}

/* In office of round 1 of n, by all of them. */
static void in_office(int n)
{
    setup_round(n);
    win(0, n - 1);
}

static void setup(void)
{
    now_us = 100 * MONO_S;
    office_init(&o);
}

/* -- ask ------------------------------------------------------------------- */

/* More than half: 2 of 3, but 3 of 4; no more once one of them goes. */
START_TEST(test_office_is_asked_for_with_more_than_half_of_the_voters_here)
{
    static const struct {
        int voters, here;
        bool may;
    } rows[] = {{1, 0, false},   {1, 1, true},  {2, 1, false}, {2, 2, true},
                {3, 1, false},   {3, 2, true},  {4, 2, false}, {4, 3, true},
                {5, 2, false},   {5, 3, true},  {8, 4, false}, {8, 5, true},
                {31, 15, false}, {31, 16, true}};
    setup_round(rows[_i].voters);
    here(0, rows[_i].here - 1);
    ck_assert_int_eq(office_may_ask(&o), rows[_i].may);
    office_away(&o, agent(0));
    ck_assert(!office_may_ask(&o));
}
END_TEST

/* A round that may not be in force needs the majority of the one before, too.
 */
START_TEST(test_office_of_a_round_that_may_not_be_in_force_takes_both)
{
    struct voters r1 = range(0, 4), r2 = range(4, 6);
    told_of(1, 1, &r1, &nobody);
    told_of(1, 2, &r2, &r1);
    here(4, 6);
    ck_assert(!office_may_ask(&o)); /* 1 of 5 of round 1 */
    here(0, 1);
    ck_assert(office_may_ask(&o));
    ask();
    promise(4, 6);
    promise(0, 0);
    ck_assert(!office_is_won(&o)); /* 2 of 5 */
    promise(1, 1);
    ck_assert(office_is_won(&o));
}
END_TEST

/* ... unless one of its members knows that it is. */
START_TEST(test_office_of_a_round_that_is_known_to_be_in_force_takes_one)
{
    struct voters r1 = range(0, 4), r2 = range(4, 6);
    told_of(1, 2, &r2, &r1);
    here(4, 5);
    ck_assert(!office_may_ask(&o));
    if (_i == 0)
        told_of(1, 2, &r2, &nobody);
    else
        office_confirm(&o);
    ck_assert(office_is_confirmed(&o));
    ck_assert(office_may_ask(&o));
}
END_TEST

/* By epoch before number: a later server may have given the same number. */
START_TEST(test_office_newest_round_is_that_of_the_highest_epoch)
{
    struct voters a = range(0, 2), b = range(1, 3), c = range(2, 4);
    told_of(1, 7, &a, &nobody);
    told_of(2, 7, &b, &nobody);
    told_of(1, 8, &c, &nobody);
    ck_assert_int_eq(o.round, 7);
    ck_assert_int_eq(o.round_epoch.count, 2);
    ck_assert_ptr_nonnull(office_vote(&o, agent(3)));
    ck_assert_ptr_null(office_vote(&o, agent(4)));
}
END_TEST

START_TEST(test_office_epoch_is_higher_than_all_that_were_heard_of)
{
    setup_round(3);
    office_hear(&o, &(struct epoch){.count = 41});
    here(0, 1);
    ask();
    ck_assert_int_eq(o.epoch.count, 42);
    ck_assert_str_eq(o.epoch.id, ME);
    ask();
    ck_assert_int_eq(o.epoch.count, 43);
}
END_TEST

/* No node can use up all numbers. */
START_TEST(test_office_absurd_epoch_is_not_heard)
{
    setup_round(3);
    office_hear(&o, &(struct epoch){.count = OFFICE_COUNT_MAX + 1});
    ck_assert_int_eq(o.heard, 1);
    office_hear(&o, &(struct epoch){.count = OFFICE_COUNT_MAX});
    here(0, 2);
    ck_assert(!office_may_ask(&o));
}
END_TEST

/* -- win ------------------------------------------------------------------- */

START_TEST(test_office_is_won_with_more_than_half_of_the_promises)
{
    setup_round(4);
    here(0, 3);
    ask();
    promise(0, 1);
    ck_assert(!office_is_won(&o)); /* half is not enough */
    promise(2, 2);
    ck_assert(office_is_won(&o));
}
END_TEST

START_TEST(test_office_promises_of_an_earlier_epoch_are_void)
{
    setup_round(3);
    here(0, 2);
    ask();
    promise(0, 1);
    ask();
    ck_assert(!office_is_won(&o));
    promise(0, 0);
    ck_assert(!office_is_won(&o));
}
END_TEST

/* What it has accepted is not known yet. */
START_TEST(test_office_promise_of_who_has_not_told_is_none)
{
    setup_round(3);
    here(0, 0);
    ask();
    promise(0, 2);
    ck_assert(!office_is_won(&o));
}
END_TEST

START_TEST(test_office_strangers_have_no_vote)
{
    setup_round(3);
    here(0, 0);
    here(5, 9);
    ck_assert(!office_may_ask(&o));
    ask();
    promise(5, 9);
    ck_assert(!office_is_won(&o));
}
END_TEST

/* -- act ------------------------------------------------------------------- */

/* The (n+1)/2-th newest echo. */
START_TEST(test_office_grants_a_lease_after_the_echo_of_half)
{
    static const struct {
        int voters, answer;
        bool newer;
    } rows[] = {{1, 1, true},    {2, 1, true},  {3, 1, false}, {3, 2, true},
                {4, 1, false},   {4, 2, true},  {5, 2, false}, {5, 3, true},
                {31, 15, false}, {31, 16, true}};
    in_office(rows[_i].voters);
    int64_t asked_us = now_us;
    for (int i = 0; i < rows[_i].answer; i++)
        office_echo(&o, agent(i), asked_us + 300 * MONO_MS);
    now_us += 400 * MONO_MS;
    int64_t until_us = office_until_us(&o, now_us, LEASE);
    ck_assert_int_eq(until_us,
                     asked_us + LEASE + (rows[_i].newer ? 300 * MONO_MS : 0));
}
END_TEST

START_TEST(test_office_grants_nothing_once_the_echoes_are_old)
{
    in_office(3);
    ck_assert(may_act());
    now_us += LEASE;
    ck_assert(!may_act());
    office_echo(&o, agent(0), now_us - 1);
    ck_assert(!may_act());
    office_echo(&o, agent(2), now_us - 1);
    ck_assert(may_act());
}
END_TEST

START_TEST(test_office_echo_of_an_older_message_takes_nothing_back)
{
    in_office(1);
    int64_t asked_us = now_us;
    office_echo(&o, agent(0), asked_us - LEASE);
    ck_assert_int_eq(office_echo_us(&o, now_us), asked_us);
}
END_TEST

START_TEST(test_office_who_obeys_another_server_is_no_echo)
{
    in_office(3);
    office_lose(&o, agent(0));
    office_lose(&o, agent(1));
    ck_assert(!may_act());
    office_echo(&o, agent(0), now_us);
    office_echo(&o, agent(1), now_us);
    ck_assert(!may_act());
}
END_TEST

/* Of both rounds, while the newest one may not be in force. */
START_TEST(test_office_grants_by_the_older_echo_of_two_rounds)
{
    struct voters r1 = range(0, 2), r2 = range(3, 5);
    told_of(1, 2, &r2, &r1);
    win(0, 5);
    int64_t asked_us = now_us;
    now_us += LEASE / 2;
    for (int i = 3; i < 6; i++)
        office_echo(&o, agent(i), now_us);
    ck_assert_int_eq(office_echo_us(&o, now_us), asked_us);
    office_confirm(&o);
    ck_assert_int_eq(office_echo_us(&o, now_us), now_us);
}
END_TEST

/* An answer is worth the sending of what it answers; what is asked later does
 * not make it newer. */
START_TEST(test_office_promise_echoes_the_message_that_it_answers)
{
    in_office(1);
    now_us += LEASE;
    ck_assert(office_asks(&o, agent(0), now_us));
    ck_assert(!office_asks(&o, agent(0), now_us + LEASE));
    promise(0, 0);
    ck_assert_int_eq(office_echo_us(&o, now_us + LEASE), now_us);
    promise(0, 0); /* to nothing that was asked */
    ck_assert_int_eq(office_echo_us(&o, now_us + LEASE), now_us);
    ck_assert(office_asks(&o, agent(0), now_us + LEASE));
    office_away(&o, agent(0)); /* with its connection the question is gone */
    ck_assert(office_asks(&o, agent(0), now_us + LEASE));
}
END_TEST

START_TEST(test_office_without_it_nothing_is_granted)
{
    setup_round(1);
    here(0, 0);
    ck_assert(!may_act());
    ask();
    promise(0, 0);
    ck_assert(!may_act());
    office_win(&o);
    ck_assert(may_act());
    office_resign(&o);
    ck_assert(!may_act());
}
END_TEST

/* -- wait ------------------------------------------------------------------ */

START_TEST(test_office_waits_for_leases_of_earlier_servers)
{
    setup_round(3);
    office_hear_foreign(&o, now_us - 200);
    office_hear_foreign(&o, now_us - 700);
    ck_assert_int_eq(office_foreign_us(&o, LEASE), now_us - 200 + LEASE);
}
END_TEST

/* -- force ----------------------------------------------------------------- */

START_TEST(test_office_round_is_in_force_by_half_of_old_and_new)
{
    static const struct {
        int old_ones, new_ones;
        bool in_force;
    } rows[] = {{0, 0, false}, {2, 1, false}, {1, 2, false},
                {2, 2, true},  {0, 4, false}, {4, 0, false}};
    struct voters next = range(4, 7);
    in_office(4);
    here(4, 7);
    office_propose(&o, 2, &next, now_us);
    accepts(0, rows[_i].old_ones - 1, 2);
    accepts(4, 4 + rows[_i].new_ones - 1, 2);
    ck_assert_int_eq(office_is_in_force(&o), rows[_i].in_force);
    office_check(&o);
}
END_TEST

/* Found by the model: nodes that had not accepted it began another instance
 * elsewhere, while the others ran. */
START_TEST(test_office_first_round_takes_all_of_its_own_voters)
{
    struct voters next = range(0, 2);
    begin();
    ck_assert(may_act());
    office_propose(&o, 1, &next, now_us);
    here(0, 2);
    accepts(0, 0, 1);
    ck_assert(!office_is_in_force(&o));
    accepts(1, 1, 1);
    ck_assert(!office_is_in_force(&o));
    accepts(2, 2, 1);
    ck_assert(office_is_in_force(&o));
    office_commit(&o);
    office_check(&o);
    ck_assert_int_eq(o.round, 1);
    ck_assert_int_eq(epoch_cmp(&o.round_epoch, &o.epoch), 0);
    /* Who has accepted has promised, and answered what was proposed then. */
    ck_assert_int_eq(office_echo_us(&o, now_us + 5), now_us);
}
END_TEST

/* Found by the simulator: the second proposal before any was in force. Who
 * takes over may know of the first one alone, and half of its voters have to
 * agree.
 */
START_TEST(test_office_second_proposal_takes_half_of_the_first_ones_voters)
{
    struct voters first = range(0, 2), second = range(2, 3);
    begin();
    office_propose(&o, 1, &first, now_us);
    office_abandon(&o);
    office_propose(&o, 2, &second, now_us);
    here(0, 3);
    accepts(2, 3, 2);
    ck_assert(!office_is_in_force(&o));
    accepts(0, 0, 2);
    ck_assert(office_is_in_force(&o));
    office_commit(&o);
    office_check(&o);
    ck_assert_int_eq(o.sets[OFFICE_NOW].n, 2);
}
END_TEST

/* A newest round that may not be in force is not left behind: its own voters,
 * and those before it, have to agree to what follows. */
START_TEST(test_office_round_found_unconfirmed_takes_three_halves)
{
    struct voters r1 = range(0, 2), r2 = range(2, 4), r3 = range(4, 6);
    told_of(1, 2, &r2, &r1);
    win(0, 6);
    office_propose(&o, 3, &r3, now_us);
    accepts(3, 6, 3);
    ck_assert(!office_is_in_force(&o)); /* none of round 1 */
    accepts(0, 0, 3);
    ck_assert(!office_is_in_force(&o));
    accepts(1, 1, 3);
    ck_assert(office_is_in_force(&o));
}
END_TEST

START_TEST(test_office_accept_of_another_proposal_is_none)
{
    struct voters next = range(0, 1);
    in_office(2);
    office_propose(&o, 2, &next, now_us);
    office_abandon(&o);
    office_propose(&o, 3, &next, now_us);
    accepts(0, 1, 2);
    ck_assert(!office_is_in_force(&o));
    accepts(1, 1, 3);
    ck_assert(office_is_in_force(&o));
}
END_TEST

/* What was in force before it still is. */
START_TEST(test_office_abandoned_proposal_changes_nothing)
{
    struct voters next = range(5, 6);
    in_office(3);
    office_propose(&o, 2, &next, now_us);
    office_abandon(&o);
    office_check(&o);
    ck_assert_int_eq(o.round, 1);
    ck_assert_ptr_null(office_vote(&o, agent(5)));
    ck_assert_int_eq(o.sets[OFFICE_NOW].n, 3);
    ck_assert(may_act());
}
END_TEST

/* One that accepts late, when half had accepted before it, is an echo. */
START_TEST(test_office_late_accept_is_a_promise)
{
    struct voters next = range(0, 3);
    in_office(1);
    here(0, 3);
    office_propose(&o, 2, &next, now_us);
    accepts(0, 1, 2);
    office_commit(&o);
    accepts(2, 2, 2);
    ck_assert(office_vote(&o, agent(2))->promised);
    ck_assert(!office_vote(&o, agent(3))->promised);
}
END_TEST

/* -- struck ---------------------------------------------------------------- */

/* Most voters say farewell: the rest goes on. */
START_TEST(test_office_struck_voters_are_needed_no_more)
{
    struct voters next = range(0, 0);
    in_office(4);
    office_strike(&o, agent(1));
    now_us += 10 * LEASE;
    office_echo(&o, agent(0), now_us);
    ck_assert(!may_act()); /* 1 of 3 */
    office_strike(&o, agent(2));
    ck_assert(may_act());
    office_strike(&o, agent(3));
    office_propose(&o, 2, &next, now_us);
    ck_assert(!office_is_in_force(&o)); /* the new voter has to accept */
    accepts(0, 0, 2);
    ck_assert(office_is_in_force(&o));
}
END_TEST

/* Nor does what they had said count: a promise, an accept, an answer. */
START_TEST(test_office_struck_voters_count_on_neither_side)
{
    struct voters next = range(0, 3);
    setup_round(4);
    here(0, 2);
    ask();
    promise(0, 1);
    office_strike(&o, agent(1));
    ck_assert(!office_is_won(&o)); /* 1 of 3 */
    promise(2, 2);
    ck_assert(office_is_won(&o));
    office_win(&o);
    office_propose(&o, 2, &next, now_us);
    accepts(0, 0, 2);
    ck_assert(!office_is_in_force(&o)); /* 1 of 3 */
    accepts(2, 2, 2);
    ck_assert(office_is_in_force(&o));
    office_strike(&o, agent(2));
    ck_assert(office_is_in_force(&o)); /* 1 of 2 */
    office_here(&o, agent(1));         /* its farewell was its last word */
    accepts(1, 1, 2);
    ck_assert(!office_vote(&o, agent(1))->here);
    ck_assert(!office_vote(&o, agent(1))->accepted);
}
END_TEST

/* The living one is silent: an operator may have sent it on elsewhere. */
START_TEST(test_office_struck_voters_do_not_decide_alone)
{
    struct voters newcomer = range(5, 5);
    in_office(2);
    office_away(&o, agent(1));
    office_strike(&o, agent(0));
    office_propose(&o, 2, &newcomer, now_us);
    accepts(5, 5, 2);
    ck_assert(!office_is_in_force(&o) && !office_end_is_known(&o));
    now_us += LEASE;
    ck_assert(!may_act());
}
END_TEST

/* A set without living voters: half of none is none, but nobody is elected. */
START_TEST(test_office_half_of_none_is_none_and_more_is_not)
{
    struct voters newcomer = range(5, 5);
    in_office(2);
    office_strike(&o, agent(0));
    office_strike(&o, agent(1));
    ck_assert(may_act());
    office_propose(&o, 2, &newcomer, now_us);
    accepts(5, 5, 2);
    ck_assert(office_is_in_force(&o));
    office_abandon(&o);
    office_resign(&o);
    ck_assert(!office_may_ask(&o) && office_lacks_voters(&o));
    office_give_up(&o); /* an operator's word */
    ck_assert(office_may_ask(&o));
}
END_TEST

/* The round before counts as well while the newest one is in doubt. */
START_TEST(test_office_round_before_without_living_voters_elects_nobody)
{
    struct voters now = range(0, 1), before = range(0, 0);
    told_of(1, 2, &now, &before);
    here(1, 1);
    office_strike(&o, agent(0));
    ck_assert(!office_may_ask(&o));
    office_confirm(&o);
    ck_assert(office_may_ask(&o));
}
END_TEST

/* -- the end, and who was given up ----------------------------------------- */

START_TEST(test_office_end_is_known_once_half_said_bye)
{
    in_office(4);
    ck_assert(!office_end_is_known(&o));
    office_bye(&o, agent(0));
    ck_assert(!office_end_is_known(&o));
    if (_i == 0)
        office_bye(&o, agent(1));
    else {
        office_strike(&o, agent(1));
        office_strike(&o, agent(2));
    }
    ck_assert(office_end_is_known(&o));
}
END_TEST

/* Those that an operator gave up are no voters, each until it comes; the others
 * have to promise and to answer as ever. */
START_TEST(test_office_given_up_voters_are_none_until_they_come)
{
    setup_round(3);
    here(0, 0);
    ck_assert(!office_may_ask(&o) && office_lacks_voters(&o));
    office_give_up(&o);
    ck_assert(office_may_ask(&o) && !office_lacks_voters(&o));
    ck_assert_int_eq(office_count_here(&o), 1);
    ask();
    ck_assert(!office_is_won(&o));
    promise(0, 0);
    ck_assert(office_is_won(&o));
    office_win(&o);
    ck_assert(office_may_act(&o, now_us, LEASE));
    here(1, 2);
    ck_assert(!office_may_act(&o, now_us, LEASE)); /* they have not answered */
    office_away(&o, agent(1));
    office_away(&o, agent(2));
    ck_assert(office_lacks_voters(&o));
}
END_TEST

int main(void)
{
    const struct {
        const TTest *test;
        int times;
    } tests[] = {
        {test_office_given_up_voters_are_none_until_they_come, 1},
        {test_office_is_asked_for_with_more_than_half_of_the_voters_here, 14},
        {test_office_of_a_round_that_may_not_be_in_force_takes_both, 1},
        {test_office_of_a_round_that_is_known_to_be_in_force_takes_one, 2},
        {test_office_newest_round_is_that_of_the_highest_epoch, 1},
        {test_office_epoch_is_higher_than_all_that_were_heard_of, 1},
        {test_office_absurd_epoch_is_not_heard, 1},
        {test_office_is_won_with_more_than_half_of_the_promises, 1},
        {test_office_promises_of_an_earlier_epoch_are_void, 1},
        {test_office_promise_of_who_has_not_told_is_none, 1},
        {test_office_strangers_have_no_vote, 1},
        {test_office_grants_a_lease_after_the_echo_of_half, 10},
        {test_office_grants_nothing_once_the_echoes_are_old, 1},
        {test_office_echo_of_an_older_message_takes_nothing_back, 1},
        {test_office_who_obeys_another_server_is_no_echo, 1},
        {test_office_grants_by_the_older_echo_of_two_rounds, 1},
        {test_office_promise_echoes_the_message_that_it_answers, 1},
        {test_office_without_it_nothing_is_granted, 1},
        {test_office_waits_for_leases_of_earlier_servers, 1},
        {test_office_round_is_in_force_by_half_of_old_and_new, 6},
        {test_office_first_round_takes_all_of_its_own_voters, 1},
        {test_office_second_proposal_takes_half_of_the_first_ones_voters, 1},
        {test_office_round_found_unconfirmed_takes_three_halves, 1},
        {test_office_accept_of_another_proposal_is_none, 1},
        {test_office_abandoned_proposal_changes_nothing, 1},
        {test_office_late_accept_is_a_promise, 1},
        {test_office_struck_voters_are_needed_no_more, 1},
        {test_office_struck_voters_count_on_neither_side, 1},
        {test_office_struck_voters_do_not_decide_alone, 1},
        {test_office_half_of_none_is_none_and_more_is_not, 1},
        {test_office_round_before_without_living_voters_elects_nobody, 1},
        {test_office_end_is_known_once_half_said_bye, 2},
    };
    Suite *suite = suite_create("office");
    TCase *tcase = tcase_create("office");
    tcase_set_tags(tcase, "fast");
    tcase_add_checked_fixture(tcase, setup, NULL);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_loop_test(tcase, tests[i].test, 0, tests[i].times);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
