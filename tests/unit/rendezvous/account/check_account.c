/* links: ACCOUNT rendezvous/base/{json,buf,utf8,mono,err} */
/* What a run's time went to, by the notes of a server's core: does a program's
 * start count as start, is work that is done again no work, and do servers that
 * take a run over from each other tell the same as one that had it all along?
 */
#include <check.h>
#include <string.h>

#include "rendezvous/account/account.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static struct account account, other;
static char sums[NOTE_SUMS_MAX + 1]; /* as they were told last */

static void tell(struct account *a,
                 int64_t at_s,
                 int64_t round,
                 enum run_phase phase,
                 const struct note_phase *more)
{
    char text[NOTE_SUMS_MAX + 1] = "";
    struct note_phase p = *more;
    p.phase = phase;
    p.sealed = phase == PHASE_RUNS || (phase == PHASE_STARTS && p.end == 0);
    p.why = "";
    p.told = p.told != NULL ? p.told : "";
    account_take(a, &(struct note){.kind = NOTE_phase,
                                   .round = round,
                                   .at_us = at_s * MONO_S,
                                   .phase = &p,
                                   .sums = text});
    if (text[0] != '\0')
        (void)strcpy(sums, text);
    account_check(a, at_s * MONO_S);
}

#define TELL(a, at_s, round, phase, ...)                                       \
    tell(a, at_s, round, phase, &(struct note_phase){.nodes = 1, __VA_ARGS__})

static void steps(struct account *a, int64_t at_s, int64_t round, int64_t n)
{
    char text[NOTE_SUMS_MAX + 1] = "";
    const struct note_steps s = {.steps = n};
    account_take(a, &(struct note){.kind = NOTE_steps,
                                   .round = round,
                                   .at_us = at_s * MONO_S,
                                   .steps = &s,
                                   .sums = text});
    if (text[0] != '\0')
        (void)strcpy(sums, text);
}

static void expect(const struct account *a,
                   int64_t now_s,
                   int64_t ran_s,
                   int64_t waited_s,
                   int64_t detect_s,
                   int64_t restart_s)
{
    struct goodput_parts p = account_goodput(a, now_s * MONO_S);
    ck_assert_int_eq(p.ran_us, ran_s * MONO_S);
    ck_assert_int_eq(p.waited_us, waited_s * MONO_S);
    ck_assert_int_eq(p.detect_us, detect_s * MONO_S);
    ck_assert_int_eq(p.restart_us, restart_s * MONO_S);
}

static void setup(void)
{
    memset(&account, 0, sizeof(account));
    memset(&other, 0, sizeof(other));
    sums[0] = '\0';
}

/* Nodes come until 5; all workers have been started at 6. */
static void begin(struct account *a)
{
    TELL(a, 0, 0, PHASE_WAITS, .anew = true);
    TELL(a, 5, 1, PHASE_STARTS, .sealed_us = 5 * MONO_S);
    TELL(a, 6, 1, PHASE_RUNS, .sealed_us = 5 * MONO_S);
}

/* A program that tells no steps runs as soon as it is started, and that is
 * said.
 */
TEST(test_without_steps_a_round_runs_when_it_is_started)
{
    begin(&account);
    ck_assert_str_eq(sums, "0 5000 0 0 0 1000 0 0");
    expect(&account, 16, 10, 5, 0, 1);
    ck_assert(!account_knows_start(&account));
    TELL(&account, 16, 1, PHASE_OVER, .end = ROUND_DONE);
    ck_assert_str_eq(sums, "10000 5000 0 1000 0 0 0 0");
}

/* It imports until 10. As long as it told no step it was not known that it
 * would.
 */
TEST(test_the_start_of_a_program_is_no_work)
{
    begin(&account);
    expect(&account, 9, 3, 5, 0, 1);
    steps(&account, 10, 1, 1);
    expect(&account, 16, 6, 5, 0, 5);
    ck_assert(account_knows_start(&account));
    ck_assert_str_eq(sums, "0 5000 0 0 0 5000 0 1");
    steps(&account, 12, 1, 20);
    expect(&account, 16, 6, 5, 0, 5);
}

/* A worker dies at 15, which is known at 16; all are started again at 18, do
 * the first old step at 30, and the first new one at 35. */
TEST(test_a_restart_lasts_until_the_first_new_step)
{
    begin(&account);
    steps(&account, 10, 1, 1);
    steps(&account, 15, 1, 50);
    TELL(&account, 16, 1, PHASE_STARTS, .end = ROUND_FAILED,
         .sign_us = 15 * MONO_S);
    expect(&account, 16, 5, 5, 1, 5);
    TELL(&account, 17, 2, PHASE_STARTS, .sealed_us = 17 * MONO_S);
    ck_assert_str_eq(sums, "5000 5000 1000 6000 0 0 0 50");
    TELL(&account, 18, 2, PHASE_RUNS, .sealed_us = 17 * MONO_S);
    expect(&account, 29, 5, 5, 1, 18);
    ck_assert_str_eq(goodput_grows(&account.goodput), "restart");
    steps(&account, 30, 2, 41);
    steps(&account, 34, 2, 50);
    expect(&account, 34, 5, 5, 1, 23);
    ck_assert_int_eq(account_goodput(&account, 34 * MONO_S).repeated_us,
                     4 * MONO_S);
    steps(&account, 35, 2, 51);
    expect(&account, 40, 10, 5, 1, 24);
    struct goodput_parts p = account_goodput(&account, 40 * MONO_S);
    ck_assert_int_eq(p.repeated_steps, 10);
    ck_assert_int_eq(p.repeated_us, 5 * MONO_S);
    /* The first round pays for what its end cost. */
    struct timeline_round r = account_round(&account, 0, 40 * MONO_S);
    ck_assert_int_eq(r.end, ROUND_FAILED);
    ck_assert_int_eq(r.cost.ran_us, 5 * MONO_S);
    ck_assert_int_eq(r.cost.detect_us, MONO_S);
    ck_assert_int_eq(r.cost.restart_us, 19 * MONO_S);
    ck_assert_int_eq(account_round(&account, 1, 40 * MONO_S).cost.ran_us,
                     5 * MONO_S);
}

/* Not all nodes have started theirs when the first of them is as far. */
TEST(test_a_new_step_before_all_run_counts_when_they_do)
{
    TELL(&account, 0, 0, PHASE_WAITS, .anew = true);
    TELL(&account, 5, 1, PHASE_STARTS, .sealed_us = 5 * MONO_S);
    steps(&account, 6, 1, 1);
    TELL(&account, 8, 1, PHASE_RUNS, .sealed_us = 5 * MONO_S);
    expect(&account, 10, 2, 5, 0, 3);
}

/*
 * A node leaves before the program has done its first step. The round that it
 * ended was a start as well, and so was what it took to see a failure in it.
 */
TEST(test_a_round_before_the_first_step_did_not_run)
{
    begin(&account);
    TELL(&account, 16, 1, PHASE_STARTS, .end = ROUND_FAILED,
         .sign_us = 14 * MONO_S);
    TELL(&account, 17, 2, PHASE_STARTS, .sealed_us = 17 * MONO_S);
    ck_assert_str_eq(sums, "8000 5000 2000 2000 0 0 0 0");
    TELL(&account, 18, 2, PHASE_RUNS, .sealed_us = 17 * MONO_S);
    expect(&account, 20, 10, 5, 2, 3);
    steps(&account, 20, 2, 1);
    ck_assert_str_eq(sums, "0 5000 0 12000 0 3000 0 1");
    expect(&account, 30, 10, 5, 0, 15);
    /* That a worker had died before is known too late to matter. */
    TELL(&account, 30, 2, PHASE_STARTS, .end = ROUND_FAILED,
         .sign_us = 13 * MONO_S);
    expect(&account, 30, 0, 5, 10, 15);
    struct timeline_round r = account_round(&account, 0, 30 * MONO_S);
    ck_assert_int_eq(r.cost.ran_us + r.cost.detect_us, 0);
    ck_assert_int_eq(r.cost.restart_us, 4 * MONO_S);
}

/* The first step of all is told while other nodes start their workers. */
TEST(test_a_first_step_before_all_run_ends_the_start)
{
    begin(&account);
    TELL(&account, 16, 1, PHASE_STARTS, .end = ROUND_LEFT);
    TELL(&account, 17, 2, PHASE_STARTS, .sealed_us = 17 * MONO_S);
    steps(&account, 18, 2, 1);
    ck_assert_str_eq(sums, "0 5000 0 12000 0 0 0 1");
    TELL(&account, 20, 2, PHASE_RUNS, .sealed_us = 17 * MONO_S);
    expect(&account, 30, 10, 5, 0, 15);
}

/* A program that counts its steps anew within a round does no step again. */
TEST(test_steps_that_count_anew_are_new)
{
    struct note_steps s = {.steps = 3, .anew = true};
    begin(&account);
    steps(&account, 6, 1, 1000);
    account_take(&account, &(struct note){.kind = NOTE_steps,
                                          .round = 1,
                                          .at_us = 8 * MONO_S,
                                          .steps = &s});
    TELL(&account, 10, 1, PHASE_STARTS, .end = ROUND_GREW);
    TELL(&account, 10, 2, PHASE_STARTS, .sealed_us = 10 * MONO_S);
    TELL(&account, 11, 2, PHASE_RUNS, .sealed_us = 10 * MONO_S);
    steps(&account, 12, 2, 4);
    expect(&account, 20, 4 + 8, 5, 0, 1 + 2);
}

/* -- from server to server ------------------------------------------------- */

/*
 * A server is cut off at 20, with the round that it sealed. Another one takes
 * the run over, which goes on with a round of its own from 30 on; then the
 * first one is the leader again, at 50. It had counted 30 s as waited, in which
 * the others ran; what a member brings is what counts, though it is less than
 * what it knew.
 */
TEST(test_a_server_that_was_cut_off_knows_less)
{
    char told[sizeof(sums)];
    begin(&account);
    steps(&account, 6, 1, 1);
    (void)strcpy(told, sums);
    TELL(&account, 20, 1, PHASE_WAITS, .end = ROUND_STOPPED);

    TELL(&other, 21, 0, PHASE_WAITS, .anew = true);
    TELL(&other, 22, 1, PHASE_RUNS, .told = told, .told_us = 5 * MONO_S,
         .sealed_us = 5 * MONO_S);
    expect(&other, 25, 19, 5, 0, 1);
    steps(&other, 25, 1, 100);
    TELL(&other, 28, 1, PHASE_STARTS, .end = ROUND_LOST,
         .sign_us = 26 * MONO_S);
    TELL(&other, 30, 2, PHASE_STARTS, .sealed_us = 30 * MONO_S);
    TELL(&other, 31, 2, PHASE_RUNS, .sealed_us = 30 * MONO_S);
    steps(&other, 32, 2, 101);
    ck_assert_str_eq(sums, "20000 5000 2000 3000 0 2000 0 101");

    TELL(&account, 50, 2, PHASE_WAITS, .end = ROUND_OPEN);
    TELL(&account, 50, 2, PHASE_RUNS, .told = sums, .told_us = 30 * MONO_S,
         .sealed_us = 30 * MONO_S);
    steps(&account, 51, 2, 300);
    expect(&account, 60, 20 + 28, 5, 2, 5);
    expect(&other, 60, 20 + 28, 5, 2, 5);
    struct goodput_parts p = account_goodput(&account, 60 * MONO_S);
    ck_assert_int_eq(goodput_wall_us(&p), 60 * MONO_S);
}

/* One member was cut off before it was told that the round runs. */
TEST(test_of_two_members_the_one_counts_that_knows_more)
{
    static const char *const told[] = {"0 5000 0 0 0 0 0 9",
                                       "0 5000 0 0 0 4000 0 9"};
    for (int first = 0; first < 2; first++) {
        TELL(&account, 100, 0, PHASE_WAITS, .anew = true);
        for (int i = 0; i < 2; i++)
            TELL(&account, 100, 7, PHASE_RUNS, .told = told[i ^ first],
                 .told_us = 90 * MONO_S);
        steps(&account, 101, 7, 10);
        expect(&account, 110, 16, 5, 0, 4);
        ck_assert_str_eq(sums, told[1]);
    }
}

/* The server is lost before the program has done its first step. */
TEST(test_the_next_server_knows_of_no_step_yet)
{
    char told[sizeof(sums)];
    begin(&account);
    (void)strcpy(told, sums);
    TELL(&other, 10, 0, PHASE_WAITS, .anew = true);
    TELL(&other, 10, 1, PHASE_RUNS, .told = told, .told_us = 5 * MONO_S);
    expect(&other, 12, 6, 5, 0, 1);
    steps(&other, 12, 1, 1);
    expect(&other, 20, 8, 5, 0, 7);
    ck_assert_str_eq(sums, "0 5000 0 0 0 7000 0 1");
}

/*
 * One member was told of the round before its first step, or before all ran,
 * and another one after it. A beat that comes between what the two tell does
 * not say when the round began to run.
 */
TEST(test_the_member_counts_that_was_told_last)
{
    static const char *const less[] = {"9000 5000 0 0 0 1000 0 0",
                                       "9000 5000 0 0 0 4000 0 0",
                                       "0 5000 0 9000 0 0 0 9"};
    static const char more[] = "0 5000 0 9000 0 4000 0 9";
    for (size_t i = 0; i < sizeof(less) / sizeof(less[0]) * 2; i++) {
        const char *const first = i % 2 == 0 ? less[i / 2] : more;
        const char *const second = i % 2 == 0 ? more : less[i / 2];
        TELL(&account, 100, 0, PHASE_WAITS, .anew = true);
        TELL(&account, 100, 7, PHASE_RUNS, .told = first,
             .told_us = 90 * MONO_S);
        steps(&account, 101, 7, 10);
        TELL(&account, 102, 7, PHASE_RUNS, .told = second,
             .told_us = 90 * MONO_S);
        steps(&account, 103, 7, 11);
        expect(&account, 110, 16, 5, 0, 13);
        ck_assert_str_eq(sums, more);
    }
}

/* A text of another version says nothing, and nothing is lost by it. */
TEST(test_nonsense_that_is_told_changes_nothing)
{
    begin(&account);
    TELL(&account, 10, 1, PHASE_RUNS, .told = "1 2 3", .told_us = 0);
    expect(&account, 16, 10, 5, 0, 1);
}

/* The time of a round that is given up, and whose number is used again, is in
 * the sums of the next one. */
TEST(test_a_round_that_was_given_up_is_counted)
{
    TELL(&account, 0, 0, PHASE_WAITS, .anew = true);
    TELL(&account, 2, 1, PHASE_STARTS, .end = ROUND_STOPPED);
    TELL(&account, 3, 1, PHASE_WAITS, .end = ROUND_STOPPED);
    TELL(&account, 7, 1, PHASE_STARTS, .end = ROUND_STOPPED);
    ck_assert_str_eq(sums, "0 6000 0 1000 0 0 0 0");
}

/* With the end come the sums of all: what files tell of it is theirs. */
TEST(test_the_sums_of_the_end_are_those_of_all)
{
    begin(&account);
    TELL(&account, 20, 1, PHASE_OVER, .end = ROUND_DONE,
         .told = "11000 5000 1000 3000 0 0 0 77");
    expect(&account, 99, 11, 5, 1, 3);
    ck_assert(account_knows_start(&account));
    ck_assert_int_eq(account_round(&account, 0, 99 * MONO_S).cost.ran_us,
                     14 * MONO_S);
}

SUITE("account", "account", .tags = "fast", FIXTURE(setup, NULL))
