/* links: launcher/proc/signals rendezvous/base/{signals_name,err} */
/*
 * Names of signals, and lists of names that a user gives: what a launcher can
 * take of them, and what it says about the rest.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/proc/signals.h"
#include "tests/lib/suite.h"

/* As kill -l of a shell has them, but for SIGIO, which it calls POLL. */
TEST(test_signals_name_is_the_usual_one)
{
    static const struct {
        int signo;
        const char *name;
    } cases[] = {
        {1, "SIGHUP"},   {2, "SIGINT"},     {3, "SIGQUIT"},
        {9, "SIGKILL"},  {11, "SIGSEGV"},   {15, "SIGTERM"},
        {25, "SIGXFSZ"}, {29, "SIGIO"},     {30, "SIGPWR"},
        {31, "SIGSYS"},  {0, "SIG?"},       {-1, "SIG?"},
        {65, "SIG?"},    {1000000, "SIG?"}, {SIGABRT, "SIGABRT"},
        {32, "SIG?"}, /* the C library's own */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_str_eq(signals_name(cases[i].signo), cases[i].name);
}

TEST(test_signals_name_of_a_real_time_signal_counts_from_rtmin)
{
    ck_assert_str_eq(signals_name(SIGRTMIN), "SIGRTMIN");
    for (int n = 1; SIGRTMIN + n <= SIGRTMAX; n++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "SIGRTMIN+%d", n);
        ck_assert_str_eq(signals_name(SIGRTMIN + n), name);
    }
}

/* Every signal that has a number has a name, and no two have the same. */
TEST(test_signals_names_differ)
{
    for (int a = 1; a < 32; a++) {
        ck_assert_str_ne(signals_name(a), "SIG?");
        for (int b = 1; b < a; b++)
            ck_assert_str_ne(signals_name(a), signals_name(b));
    }
}

TEST(test_signals_read_takes_names_with_and_without_sig)
{
    char odd[64];
    ck_assert_uint_eq(signals_read("SIGUSR1, usr2,sigterm", odd, sizeof(odd)),
                      SIGNALS_BIT(SIGUSR1) | SIGNALS_BIT(SIGUSR2) |
                          SIGNALS_BIT(SIGTERM));
    ck_assert_str_eq(odd, "");
    ck_assert_uint_eq(signals_read("", odd, sizeof(odd)), 0);
    ck_assert_uint_eq(signals_read(" ,, ", odd, sizeof(odd)), 0);
    ck_assert_str_eq(odd, "");
}

/* What cannot be caught, what is a fault, what is needed, and no signal. */
TEST(test_signals_read_names_what_it_cannot_take)
{
    static const char *const odd_ones[] = {
        "KILL", "SIGSTOP", "SEGV", "CHLD", "SIGFOO", "SIGSIGTERM", "15"};
    for (size_t i = 0; i < sizeof(odd_ones) / sizeof(odd_ones[0]); i++) {
        char list[64], odd[64];
        (void)snprintf(list, sizeof(list), "TERM,%s", odd_ones[i]);
        ck_assert_uint_eq(signals_read(list, odd, sizeof(odd)),
                          SIGNALS_BIT(SIGTERM));
        ck_assert_str_eq(odd, odd_ones[i]);
    }
}

TEST(test_signals_read_cuts_a_list_that_does_not_fit)
{
    char odd[12];
    (void)signals_read("FIRST,SECOND,THIRD", odd, sizeof(odd));
    ck_assert_str_eq(odd, "FIRST");
}

SUITE("signals", "signals", .tags = "fast")
