/* links: rendezvous/base/{log_limit,err,mono} */
/*
 * How many lines peers may cause in the log, and what is told of those that are
 * left out.
 */
#include <check.h>

#include "rendezvous/base/log_limit.h"
#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static int64_t now_us = 5 * MONO_S;

TEST(test_log_limit_counts_what_is_left_out)
{
    struct log_limit limit;
    char line[160];
    int said = 0;
    log_limit_init(&limit, 10, 2);
    for (int i = 0; i < 1000; i++) {
        said += log_limit_may(&limit, now_us);
        now_us += 10 * MONO_MS;
    }
    ck_assert_int_eq(said, 10 + 2 * 10 - 1); /* ten at once, ten seconds */
    ck_assert(log_limit_tell(&limit, line, sizeof(line)));
    ck_assert_str_eq(line, "971 more lines were left out");
    ck_assert(!log_limit_tell(&limit, line, sizeof(line)));
    now_us += 60 * MONO_S;
    for (int i = 0; i < 10; i++)
        ck_assert(log_limit_may(&limit, now_us));
    ck_assert(!log_limit_may(&limit, now_us));
    ck_assert(log_limit_tell(&limit, line, sizeof(line)));
    ck_assert_str_eq(line, "1 more line was left out");
}

SUITE("log_limit", "log_limit", .tags = "fast")
