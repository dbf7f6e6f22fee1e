/* links: rendezvous/core/inner/state/office rendezvous/proto/msg */
/* links: rendezvous/base/err rendezvous/base/mono rendezvous/base/json */
/* links: rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -lcjson */
/*
 * When one of two voters is enough (check_office has the rest of the rule).
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
static int64_t now_us = 100 * MONO_S;

/* The id of agent i, all 32 digits. */
static const char *agent(int i)
{
    static char id[2][33];
    static int turn;
    char *text = id[turn++ % 2];
    (void)snprintf(text, 33, "%016x%016x", i + 1, 7);
    return text;
}

/* Round 1 of agents 0 to n-1, in epoch 1, in force; agent 1 is here. */
static void setup_round(int n)
{
    static const struct voters nobody;
    struct epoch e = epoch_make(1, "00000000000000aa");
    struct voters v = {.n = 0};
    for (int i = 0; i < n; i++)
        voters_add(&v, agent(i));
    office_init(&o);
    office_hear(&o, &e);
    (void)office_adopt(&o, &e, 1, &v, &nobody);
    office_here(&o, agent(1));
}

static void ask(void)
{
    office_ask(&o, ME);
    (void)office_asks(&o, agent(1), now_us);
}

static void two_of(bool excused, int64_t runs_until_us, int voters)
{
    setup_round(voters);
    office_runs_until(&o, agent(1), runs_until_us);
    if (excused)
        office_excuse(&o, agent(0));
}

START_TEST(test_office_one_of_two_is_enough_if_the_other_and_its_server_died)
{
    two_of(true, now_us + 1, 2);
    ck_assert(office_may_ask(&o, now_us));
    ask();
    ck_assert(!office_is_won(&o, now_us));
    office_promise(&o, agent(1));
    ck_assert(office_is_won(&o, now_us));
    office_win(&o);
    ck_assert(office_may_act(&o, now_us, LEASE));
}
END_TEST

START_TEST(test_office_one_of_two_is_not_enough)
{
    static const struct {
        bool excused;
        int64_t left_us;
        int voters;
    } rows[] = {{false, 1, 2}, /* no proof */
                {true, 0, 2},  /* its lease is over: others may go on */
                {true, 1, 3}}; /* only of two */
    two_of(rows[_i].excused, now_us + rows[_i].left_us, rows[_i].voters);
    ck_assert(!office_may_ask(&o, now_us));
}
END_TEST

/* What the dead one accepted last is known: nothing newer is in force, be the
 * lease of the other one over or not. */
START_TEST(test_office_one_of_two_is_enough_if_the_last_word_is_known)
{
    static const struct {
        int64_t epoch, round;
        int voters;
        bool enough;
    } rows[] = {{1, 1, 2, true},
                {0, 9, 2, true}, /* an older one: it had not heard of this */
                {1, 2, 2, false},
                {2, 1, 2, false}, /* newer: it may be in force */
                {1, 1, 3, false}};
    setup_round(rows[_i].voters);
    ck_assert(!office_may_ask(&o, now_us));
    struct epoch epoch = o.round_epoch;
    epoch.count = rows[_i].epoch;
    office_last_word(&o, agent(0), &epoch, rows[_i].round);
    ck_assert_int_eq(office_may_ask(&o, now_us), rows[_i].enough);
    ck_assert_int_eq(office_knows_other(&o), rows[_i].enough);
    if (!rows[_i].enough)
        return;
    ask();
    ck_assert(!office_is_won(&o, now_us));
    office_promise(&o, agent(1));
    ck_assert(office_is_won(&o, now_us));
}
END_TEST

/* One that comes lives, whatever was said of it. */
START_TEST(test_office_last_word_is_none_of_one_that_is_here)
{
    setup_round(2);
    office_last_word(&o, agent(0), &o.round_epoch, o.round);
    office_here(&o, agent(0));
    office_away(&o, agent(0));
    ck_assert(!office_may_ask(&o, now_us));
    office_here(&o, agent(0));
    office_last_word(&o, agent(0), &o.round_epoch, o.round);
    ck_assert(!office_knows_other(&o));
}
END_TEST

int main(void)
{
    const struct {
        const TTest *test;
        int times;
    } tests[] = {
        {test_office_one_of_two_is_enough_if_the_other_and_its_server_died, 1},
        {test_office_one_of_two_is_not_enough, 3},
        {test_office_one_of_two_is_enough_if_the_last_word_is_known, 5},
        {test_office_last_word_is_none_of_one_that_is_here, 1},
    };
    Suite *suite = suite_create("office_two");
    TCase *tcase = tcase_create("two voters");
    tcase_set_tags(tcase, "fast");
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_loop_test(tcase, tests[i].test, 0, tests[i].times);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
