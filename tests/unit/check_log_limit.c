/* links: rendezvous/base/log_limit rendezvous/base/quota rendezvous/base/err */
/* links: rendezvous/base/mono */
/*
 * How many lines each source may cause in the log, and what is told of those
 * that are left out.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/log_limit.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static int64_t now_us = 5 * MONO_S;

START_TEST(test_log_limit_counts_what_is_left_out_of_each)
{
    static struct log_limit limit;
    char line[160];
    int said = 0;
    log_limit_init(&limit, 10, 2);
    for (int i = 0; i < 1000; i++) {
        said += log_limit_may(&limit, "10.0.0.1", now_us);
        now_us += 10 * MONO_MS;
    }
    ck_assert_int_eq(said, 10 + 2 * 10 - 1); /* ten at once, ten seconds */
    ck_assert(log_limit_may(&limit, "10.0.0.2", now_us));
    ck_assert(log_limit_tell(&limit, line, sizeof(line)));
    ck_assert_str_eq(line, "971 more lines about 10.0.0.1 were left out");
    ck_assert(!log_limit_tell(&limit, line, sizeof(line)));
    now_us += 60 * MONO_S;
    for (int i = 0; i < 10; i++)
        ck_assert(log_limit_may(&limit, "10.0.0.1", now_us));
    ck_assert(!log_limit_may(&limit, "10.0.0.1", now_us));
    ck_assert(log_limit_tell(&limit, line, sizeof(line)));
    ck_assert_str_eq(line, "1 more line about 10.0.0.1 was left out");
}
END_TEST

/* Ten thousand nodes that join at once are all told of; lines about as many
 * refused connections are bounded, from however many addresses they come. */
START_TEST(test_log_limit_of_many_sources_is_bounded)
{
    static struct log_limit limit;
    char addr[32], line[160];
    int said = 0;
    int64_t left_out = 0;
    log_limit_init(&limit, 500, 2);
    for (int i = 0; i < 10000; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.%d.%d", i / 250, i % 250);
        ck_assert(log_limit_may(&limit, addr, now_us));
    }
    log_limit_init(&limit, 10, 2);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(addr, sizeof(addr), "10.0.%d.%d", i / 250 % 40, i % 250);
        said += log_limit_may(&limit, addr, now_us);
    }
    ck_assert_int_le(said, 10 * LOG_LIMIT_SOURCES);
    while (log_limit_tell(&limit, line, sizeof(line)))
        left_out += strtoll(line, NULL, 10);
    ck_assert_int_eq(said + left_out, 100000);
}
END_TEST

/* Lines that are about no peer have an allowance of their own. */
START_TEST(test_log_limit_of_no_source)
{
    static struct log_limit limit;
    char line[160];
    log_limit_init(&limit, 2, 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(log_limit_may(&limit, "", now_us), i < 2);
    ck_assert(log_limit_may(&limit, "10.0.0.1", now_us));
    ck_assert(log_limit_tell(&limit, line, sizeof(line)));
    ck_assert_str_eq(line, "3 more lines about connections were left out");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log_limit");
    TCase *tc = tcase_create("log_limit");
    tcase_set_tags(tc, "fast");
    tcase_add_test(tc, test_log_limit_counts_what_is_left_out_of_each);
    tcase_add_test(tc, test_log_limit_of_many_sources_is_bounded);
    tcase_add_test(tc, test_log_limit_of_no_source);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
