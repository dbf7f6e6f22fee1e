/* links: rendezvous/core/inner/authority/{authority,voters,launchers} */
/* links: rendezvous/proto/{msg,term} */
/* links: rendezvous/base/{err,mono,json,utf8,buf} */
/* libs: -lcjson */
/*
 * The rule of who leads a run, clause by clause: each test fails if its
 * clause is left out.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/authority/authority.h"
#include "tests/lib/suite.h"

#define LEASE (1000 * MONO_MS)
#define ME    "00000000000000ee"

#define AGENTS 64

static struct authority o;
static struct launcher launchers[AGENTS];
static int64_t now_us, sent_us;

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

/* Agent i, or what becomes of it. */
static void say(int i, enum authority_word word, int64_t value)
{
    ck_assert_int_lt(i, AGENTS);
    msg_set(launchers[i].id, agent(i));
    authority_hear(&o, &launchers[i], word, value, now_us);
}

static struct authority_tally tally(void)
{
    return authority_tally(&o, now_us);
}

/* What would become of it. */
static enum authority_news news(void)
{
    struct authority copy = o;
    return authority_advance(&copy, now_us);
}

static bool is_won(void)
{
    return news() == AUTHORITY_ELECTED;
}

static bool is_in_force(void)
{
    return news() == AUTHORITY_COMMITTED;
}

static void lead(void)
{
    ck_assert(authority_advance(&o, now_us) == AUTHORITY_ELECTED);
}

static void commit(void)
{
    ck_assert(authority_advance(&o, now_us) == AUTHORITY_COMMITTED);
}

/* When half of the voters had answered. */
static int64_t echo_us(int64_t at_us)
{
    return authority_leases(&o, at_us).voters_us - LEASE;
}

static void answered_elsewhere(int64_t at_us)
{
    (void)authority_learn(&o, &(struct ballot){.answered_us = at_us});
}

static void told_of(int64_t term,
                    int64_t round,
                    const struct voters *now,
                    const struct voters *before)
{
    struct term e = {.count = term, .id = "00000000000000aa"};
    struct ballot b = {.term = e,
                       .round = round,
                       .now = *now,
                       .before = *before,
                       .answered_us = AUTHORITY_NO_ECHO};
    say(0, AUTHORITY_TERM, term);
    (void)authority_learn(&o, &b);
}

/* Round 1 of agents 0 to n-1, in term 1, in force. */
static void setup_round(int n)
{
    struct voters v = range(0, n - 1);
    told_of(1, 1, &v, &nobody);
}

static void here(int first, int last)
{
    for (int i = first; i <= last; i++)
        say(i, AUTHORITY_HERE, 0);
}

static void ask(void)
{
    authority_campaign(&o, ME);
    sent_us = now_us;
}

static void promise(int first, int last)
{
    for (int i = first; i <= last; i++)
        say(i, AUTHORITY_PROMISE, sent_us);
}

static void accepts(int first, int last, int64_t round)
{
    for (int i = first; i <= last; i++)
        say(i, AUTHORITY_ACCEPT, round);
}

static bool may_act(void)
{
    return authority_leases(&o, now_us).voters_us > now_us;
}

/* By the promises of all of them. */
static void win(int first, int last)
{
    here(first, last);
    ask();
    promise(first, last);
    ck_assert(is_won());
    lead();
    (void)tally();
}

/* The leader of a run that has had no round. */
static void begin(void)
{
    authority_campaign(&o, ME);
    ck_assert(is_won());
    lead();
}

/* The leader of round 1 of n, by all of them. */
static void lead_round_of(int n)
{
    setup_round(n);
    win(0, n - 1);
}

static void setup(void)
{
    now_us = 100 * MONO_S;
    memset(launchers, 0, sizeof(launchers));
    authority_init(
        &o, &(struct authority_rules){.lease_us = LEASE, .nodes_min = 1});
}

/* -- ask ------------------------------------------------------------------- */

/* More than half: 2 of 3, but 3 of 4; no more once one of them goes. */
TEST_LOOP(test_authority_is_asked_for_with_more_than_half_of_the_voters_here,
          0,
          14)
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
    ck_assert_int_eq(tally().may_campaign, rows[_i].may);
    say(0, AUTHORITY_AWAY, 0);
    ck_assert(!tally().may_campaign);
}

/* A round that may not be in force needs the majority of the one before, too.
 */
TEST(test_authority_of_a_round_that_may_not_be_in_force_takes_both)
{
    struct voters r1 = range(0, 4), r2 = range(4, 6);
    told_of(1, 1, &r1, &nobody);
    told_of(1, 2, &r2, &r1);
    here(4, 6);
    ck_assert(!tally().may_campaign); /* 1 of 5 of round 1 */
    here(0, 1);
    ck_assert(tally().may_campaign);
    ask();
    promise(4, 6);
    promise(0, 0);
    ck_assert(!is_won()); /* 2 of 5 */
    promise(1, 1);
    ck_assert(is_won());
}

/* ... unless one of its members knows that it is. */
TEST_LOOP(test_authority_of_a_round_that_is_known_to_be_in_force_takes_one,
          0,
          2)
{
    struct voters r1 = range(0, 4), r2 = range(4, 6);
    told_of(1, 2, &r2, &r1);
    here(4, 5);
    ck_assert(!tally().may_campaign);
    if (_i == 0)
        told_of(1, 2, &r2, &nobody);
    else
        say(0, AUTHORITY_RUNS, o.round);
    ck_assert(!o.in_doubt);
    ck_assert(tally().may_campaign);
}

/* By term before number: a later server may have given the same number. */
TEST(test_authority_newest_round_is_that_of_the_highest_term)
{
    struct voters a = range(0, 2), b = range(1, 3), c = range(2, 4);
    told_of(1, 7, &a, &nobody);
    told_of(2, 7, &b, &nobody);
    told_of(1, 8, &c, &nobody);
    ck_assert_int_eq(o.round, 7);
    ck_assert_int_eq(o.round_term.count, 2);
    ck_assert_ptr_nonnull(authority_vote(&o, agent(3)));
    ck_assert_ptr_null(authority_vote(&o, agent(4)));
}

TEST(test_authority_term_is_higher_than_all_that_were_heard_of)
{
    setup_round(3);
    say(0, AUTHORITY_TERM, 41);
    here(0, 1);
    ask();
    ck_assert_int_eq(o.term.count, 42);
    ck_assert_str_eq(o.term.id, ME);
    ask();
    ck_assert_int_eq(o.term.count, 43);
}

/* No node can use up all numbers. */
TEST(test_authority_absurd_term_is_not_heard)
{
    setup_round(3);
    say(0, AUTHORITY_TERM, AUTHORITY_COUNT_MAX + 1);
    ck_assert_int_eq(o.heard, 1);
    say(0, AUTHORITY_TERM, AUTHORITY_COUNT_MAX);
    here(0, 2);
    ck_assert(!tally().may_campaign);
}

/* -- win ------------------------------------------------------------------- */

TEST(test_authority_is_won_with_more_than_half_of_the_promises)
{
    setup_round(4);
    here(0, 3);
    ask();
    promise(0, 1);
    ck_assert(!is_won()); /* half is not enough */
    promise(2, 2);
    ck_assert(is_won());
}

TEST(test_authority_promises_of_an_earlier_term_are_void)
{
    setup_round(3);
    here(0, 2);
    ask();
    promise(0, 1);
    ask();
    ck_assert(!is_won());
    promise(0, 0);
    ck_assert(!is_won());
}

/* What it has accepted is not known yet. */
TEST(test_authority_promise_of_who_has_not_told_is_none)
{
    setup_round(3);
    here(0, 0);
    ask();
    promise(0, 2);
    ck_assert(!is_won());
}

TEST(test_authority_strangers_have_no_vote)
{
    setup_round(3);
    here(0, 0);
    here(5, 9);
    ck_assert(!tally().may_campaign);
    ask();
    promise(5, 9);
    ck_assert(!is_won());
}

/* -- act ------------------------------------------------------------------- */

/* The (n+1)/2-th newest echo. */
TEST_LOOP(test_authority_grants_a_lease_after_the_echo_of_half, 0, 10)
{
    static const struct {
        int voters, answer;
        bool newer;
    } rows[] = {{1, 1, true},    {2, 1, true},  {3, 1, false}, {3, 2, true},
                {4, 1, false},   {4, 2, true},  {5, 2, false}, {5, 3, true},
                {31, 15, false}, {31, 16, true}};
    lead_round_of(rows[_i].voters);
    int64_t asked_us = now_us;
    for (int i = 0; i < rows[_i].answer; i++)
        say(i, AUTHORITY_ANSWER, asked_us + 300 * MONO_MS);
    now_us += 400 * MONO_MS;
    int64_t until_us = authority_leases(&o, now_us).voters_us;
    ck_assert_int_eq(until_us,
                     asked_us + LEASE + (rows[_i].newer ? 300 * MONO_MS : 0));
}

TEST(test_authority_grants_nothing_once_the_echoes_are_old)
{
    lead_round_of(3);
    ck_assert(may_act());
    now_us += LEASE;
    ck_assert(!may_act());
    say(0, AUTHORITY_ANSWER, now_us - 1);
    ck_assert(!may_act());
    say(2, AUTHORITY_ANSWER, now_us - 1);
    ck_assert(may_act());
}

TEST(test_authority_echo_of_an_older_message_takes_nothing_back)
{
    lead_round_of(1);
    int64_t asked_us = now_us;
    say(0, AUTHORITY_ANSWER, asked_us - LEASE);
    ck_assert_int_eq(echo_us(now_us), asked_us);
}

TEST(test_authority_who_obeys_another_server_is_no_echo)
{
    lead_round_of(3);
    say(0, AUTHORITY_DESERTS, 0);
    say(1, AUTHORITY_DESERTS, 0);
    ck_assert(!may_act());
    say(0, AUTHORITY_ANSWER, now_us);
    say(1, AUTHORITY_ANSWER, now_us);
    ck_assert(!may_act());
}

/* Of both rounds, while the newest one may not be in force. */
TEST(test_authority_grants_by_the_older_echo_of_two_rounds)
{
    struct voters r1 = range(0, 2), r2 = range(3, 5);
    told_of(1, 2, &r2, &r1);
    win(0, 5);
    int64_t asked_us = now_us;
    now_us += LEASE / 2;
    for (int i = 3; i < 6; i++)
        say(i, AUTHORITY_ANSWER, now_us);
    ck_assert_int_eq(echo_us(now_us), asked_us);
    say(0, AUTHORITY_RUNS, o.round);
    ck_assert_int_eq(echo_us(now_us), now_us);
}

/* An answer is worth the sending of what it answers; one to nothing that was
 * asked is worth nothing. */
TEST(test_authority_promise_echoes_the_message_that_it_answers)
{
    lead_round_of(1);
    now_us += LEASE;
    say(0, AUTHORITY_PROMISE, now_us - 1);
    ck_assert_int_eq(echo_us(now_us), now_us - 1);
    say(0, AUTHORITY_PROMISE, AUTHORITY_NO_ECHO);
    ck_assert_int_eq(echo_us(now_us), now_us - 1);
}

TEST(test_authority_without_it_nothing_is_granted)
{
    setup_round(1);
    here(0, 0);
    ck_assert(!may_act());
    ask();
    promise(0, 0);
    ck_assert(!may_act());
    lead();
    ck_assert(may_act());
    authority_resign(&o);
    ck_assert(!may_act());
}

/* -- wait ------------------------------------------------------------------ */

TEST(test_authority_waits_for_leases_of_earlier_servers)
{
    setup_round(3);
    answered_elsewhere(now_us - 200);
    answered_elsewhere(now_us - 700);
    ck_assert_int_eq(authority_leases(&o, now_us).earlier_us,
                     now_us - 200 + LEASE);
}

/* -- force ----------------------------------------------------------------- */

TEST_LOOP(test_authority_round_is_in_force_by_half_of_old_and_new, 0, 6)
{
    static const struct {
        int old_ones, new_ones;
        bool in_force;
    } rows[] = {{0, 0, false}, {2, 1, false}, {1, 2, false},
                {2, 2, true},  {0, 4, false}, {4, 0, false}};
    struct voters next = range(4, 7);
    lead_round_of(4);
    here(4, 7);
    authority_propose(&o, 2, &next, now_us);
    accepts(0, rows[_i].old_ones - 1, 2);
    accepts(4, 4 + rows[_i].new_ones - 1, 2);
    ck_assert_int_eq(is_in_force(), rows[_i].in_force);
    (void)tally();
}

/* Voters that are given up may have promised terms of which nobody here knows:
 * the next one is above those by the age of the run, and by the terms that are
 * known. */
TEST(test_authority_line_is_numbered_by_the_age_of_the_run)
{
    static const struct {
        int64_t age_us, line;
    } rows[] = {{0, 1},
                {LEASE / 2, 2}, /* the clock of another one is behind */
                {40 * LEASE, 80},
                {41 * LEASE, 82},
                {INT64_MAX, 82}}; /* numbers end */
    lead_round_of(3);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        authority_begin_line(&o, rows[i].age_us, false, now_us);
        authority_campaign(&o, ME);
        ck_assert_int_eq(AUTHORITY_LINE(o.term.count), rows[i].line);
    }
}

/* Found by the model: nodes that had not accepted it began another instance
 * elsewhere, while the others ran. */
TEST(test_authority_first_round_takes_all_of_its_own_voters)
{
    struct voters next = range(0, 2);
    begin();
    ck_assert(may_act());
    authority_propose(&o, 1, &next, now_us);
    here(0, 2);
    accepts(0, 0, 1);
    ck_assert(!is_in_force());
    accepts(1, 1, 1);
    ck_assert(!is_in_force());
    accepts(2, 2, 1);
    ck_assert(is_in_force());
    commit();
    (void)tally();
    ck_assert_int_eq(o.round, 1);
    ck_assert_int_eq(term_cmp(&o.round_term, &o.term), 0);
    /* Who has accepted has promised, and answered what was proposed then. */
    ck_assert_int_eq(echo_us(now_us + 5), now_us);
}

/* Found by the simulator: the second proposal before any was in force. Who
 * takes over may know of the first one alone, and half of its voters have to
 * agree.
 */
TEST(test_authority_second_proposal_takes_half_of_the_first_ones_voters)
{
    struct voters first = range(0, 2), second = range(2, 3);
    begin();
    authority_propose(&o, 1, &first, now_us);
    authority_abandon(&o, false);
    authority_propose(&o, 2, &second, now_us);
    here(0, 3);
    accepts(2, 3, 2);
    ck_assert(!is_in_force());
    accepts(0, 0, 2);
    ck_assert(is_in_force());
    commit();
    (void)tally();
    ck_assert_int_eq(o.sets[AUTHORITY_NOW].n, 2);
}

/* A newest round that may not be in force is not left behind: its own voters,
 * and those before it, have to agree to what follows. */
TEST(test_authority_round_found_unconfirmed_takes_three_halves)
{
    struct voters r1 = range(0, 2), r2 = range(2, 4), r3 = range(4, 6);
    told_of(1, 2, &r2, &r1);
    win(0, 6);
    authority_propose(&o, 3, &r3, now_us);
    accepts(3, 6, 3);
    ck_assert(!is_in_force()); /* none of round 1 */
    accepts(0, 0, 3);
    ck_assert(!is_in_force());
    accepts(1, 1, 3);
    ck_assert(is_in_force());
}

TEST(test_authority_accept_of_another_proposal_is_none)
{
    struct voters next = range(0, 1);
    lead_round_of(2);
    authority_propose(&o, 2, &next, now_us);
    authority_abandon(&o, false);
    authority_propose(&o, 3, &next, now_us);
    accepts(0, 1, 2);
    ck_assert(!is_in_force());
    accepts(1, 1, 3);
    ck_assert(is_in_force());
}

/* What was in force before it still is. */
TEST(test_authority_abandoned_proposal_changes_nothing)
{
    struct voters next = range(5, 6);
    lead_round_of(3);
    authority_propose(&o, 2, &next, now_us);
    authority_abandon(&o, false);
    (void)tally();
    ck_assert_int_eq(o.round, 1);
    ck_assert_ptr_null(authority_vote(&o, agent(5)));
    ck_assert_int_eq(o.sets[AUTHORITY_NOW].n, 3);
    ck_assert(may_act());
}

/* One that accepts late, when half had accepted before it, is an echo. */
TEST(test_authority_late_accept_is_a_promise)
{
    struct voters next = range(0, 3);
    lead_round_of(1);
    here(0, 3);
    authority_propose(&o, 2, &next, now_us);
    accepts(0, 1, 2);
    commit();
    accepts(2, 2, 2);
    ck_assert(authority_vote(&o, agent(2))->promised);
    ck_assert(!authority_vote(&o, agent(3))->promised);
}

/* -- dead ------------------------------------------------------------------ */

/* Most voters say farewell: the rest goes on. */
TEST(test_authority_struck_voters_are_needed_no_more)
{
    struct voters next = range(0, 0);
    lead_round_of(4);
    say(1, AUTHORITY_FAREWELL, 0);
    now_us += 10 * LEASE;
    say(0, AUTHORITY_ANSWER, now_us);
    ck_assert(!may_act()); /* 1 of 3 */
    say(2, AUTHORITY_FAREWELL, 0);
    ck_assert(may_act());
    say(3, AUTHORITY_FAREWELL, 0);
    authority_propose(&o, 2, &next, now_us);
    ck_assert(!is_in_force()); /* the new voter has to accept */
    accepts(0, 0, 2);
    ck_assert(is_in_force());
}

/* Nor does what they had said count: a promise, an accept, an answer. */
TEST(test_authority_struck_voters_count_on_neither_side)
{
    struct voters next = range(0, 3);
    setup_round(4);
    here(0, 2);
    ask();
    promise(0, 1);
    say(1, AUTHORITY_FAREWELL, 0);
    ck_assert(!is_won()); /* 1 of 3 */
    promise(2, 2);
    ck_assert(is_won());
    lead();
    authority_propose(&o, 2, &next, now_us);
    accepts(0, 0, 2);
    ck_assert(!is_in_force()); /* 1 of 3 */
    accepts(2, 2, 2);
    ck_assert(is_in_force());
    say(2, AUTHORITY_FAREWELL, 0);
    ck_assert(is_in_force());  /* 1 of 2 */
    say(1, AUTHORITY_HERE, 0); /* its farewell was its last word */
    accepts(1, 1, 2);
    ck_assert(!authority_vote(&o, agent(1))->here);
    ck_assert(!authority_vote(&o, agent(1))->accepted);
}

/* The living one is silent: an operator may have sent it on elsewhere. */
TEST(test_authority_struck_voters_do_not_decide_alone)
{
    struct voters newcomer = range(5, 5);
    lead_round_of(2);
    say(1, AUTHORITY_AWAY, 0);
    say(0, AUTHORITY_FAREWELL, 0);
    authority_propose(&o, 2, &newcomer, now_us);
    accepts(5, 5, 2);
    ck_assert(!is_in_force() && !tally().end_is_known);
    now_us += LEASE;
    ck_assert(!may_act());
}

/* A set without living voters: half of none is none, but nobody is elected. */
TEST(test_authority_half_of_none_is_none_and_more_is_not)
{
    struct voters newcomer = range(5, 5);
    lead_round_of(2);
    say(0, AUTHORITY_FAREWELL, 0);
    say(1, AUTHORITY_FAREWELL, 0);
    ck_assert(may_act());
    authority_propose(&o, 2, &newcomer, now_us);
    accepts(5, 5, 2);
    ck_assert(is_in_force());
    authority_abandon(&o, false);
    authority_resign(&o);
    ck_assert(!tally().may_campaign && tally().lacks_voters);
    authority_give_up(&o); /* an operator's word */
    ck_assert(tally().may_campaign);
}

/* The round before counts as well while the newest one is in doubt. */
TEST(test_authority_round_before_without_living_voters_elects_nobody)
{
    struct voters now = range(0, 1), before = range(0, 0);
    told_of(1, 2, &now, &before);
    here(1, 1);
    say(0, AUTHORITY_FAREWELL, 0);
    ck_assert(!tally().may_campaign);
    say(0, AUTHORITY_RUNS, o.round);
    ck_assert(tally().may_campaign);
}

/* -- the end, and who was given up ----------------------------------------- */

TEST_LOOP(test_authority_end_is_known_once_half_said_bye, 0, 2)
{
    lead_round_of(4);
    ck_assert(!tally().end_is_known);
    say(0, AUTHORITY_BYE, 0);
    ck_assert(!tally().end_is_known);
    if (_i == 0)
        say(1, AUTHORITY_BYE, 0);
    else {
        say(1, AUTHORITY_FAREWELL, 0);
        say(2, AUTHORITY_FAREWELL, 0);
    }
    ck_assert(tally().end_is_known);
}

/* Those that an operator gave up are no voters, each until it comes; the others
 * have to promise and to answer as ever. */
TEST(test_authority_given_up_voters_are_none_until_they_come)
{
    setup_round(3);
    here(0, 0);
    ck_assert(!tally().may_campaign && tally().lacks_voters);
    authority_give_up(&o);
    ck_assert(tally().may_campaign && !tally().lacks_voters);
    ck_assert_int_eq(tally().here, 1);
    ask();
    ck_assert(!is_won());
    promise(0, 0);
    ck_assert(is_won());
    lead();
    ck_assert(may_act());
    here(1, 2);
    ck_assert(!may_act()); /* they have not answered */
    say(1, AUTHORITY_AWAY, 0);
    say(2, AUTHORITY_AWAY, 0);
    ck_assert(tally().lacks_voters);
}

SUITE("authority", "authority", .tags = "fast", FIXTURE(setup, NULL))
