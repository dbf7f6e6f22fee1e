/* links: rendezvous/proto/term */
/*
 * Terms as values and as texts: their order, and which texts of a peer are
 * none.
 */
#include <check.h>

#include "rendezvous/proto/term.h"
#include "tests/lib/suite.h"

TEST(test_terms_are_ordered_by_count_then_server)
{
    struct term a = term_make(1, "b"), b = term_make(2, "a");
    struct term c = term_make(2, "b");
    ck_assert_int_lt(term_cmp(&a, &b), 0);
    ck_assert_int_lt(term_cmp(&b, &c), 0);
    ck_assert_int_eq(term_cmp(&c, &c), 0);
    ck_assert_int_lt(round_cmp(&a, 9, &b, 1), 0);
    ck_assert_int_gt(round_cmp(&b, 9, &b, 1), 0);
}

TEST_LOOP(test_terms_are_printed_and_parsed, 0, 4)
{
    static const struct term terms[] = {
        {0, ""},
        {0, "fedcba9876543210"}, /* a daemon that would lead */
        {3, "0123456789abcdef"},
        {TERM_COUNT_MAX, "."},
    };
    char text[TERM_TEXT_SIZE];
    struct term t;
    term_print(&terms[_i], text);
    ck_assert(term_parse(&t, text));
    ck_assert_int_eq(term_cmp(&t, &terms[_i]), 0);
}

TEST_LOOP(test_terms_of_nonsense_are_none, 0, 11)
{
    static const char *const bad[] = {
        "",
        "3",
        ".a",
        "-1.a",
        "+1.a",
        " 1.a",
        "1 .a",
        "x.a",
        "1000000000000001.a",
        "99999999999999999.a",
        "1.0123456789abcdef0",
    };
    struct term t;
    ck_assert(!term_parse(&t, bad[_i]));
}

SUITE("term", "texts")
