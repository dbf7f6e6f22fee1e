/* links: rendezvous/core/inner/authority/voters rendezvous/proto/{msg,term} */
/* links: rendezvous/base/{err,mono,json,utf8,buf} */
/* libs: -lcjson */
/* Sets of voters, as they are compared, printed and parsed. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/core/inner/authority/voters.h"
#include "tests/lib/suite.h"

/* The id of agent i, all 32 digits. */
static void agent_id(int i, char text[33])
{
    (void)snprintf(text, 33, "%016x%016x", i + 1, 7);
}

static struct voters as_many_as_may_be(void)
{
    struct voters v = {.n = 0};
    char id[33];
    for (int i = 0; i < MSG_VOTERS_MAX; i++) {
        agent_id(i, id);
        voters_add(&v, id);
    }
    return v;
}

TEST(test_voters_print_and_parse)
{
    char text[VOTERS_TEXT_SIZE], last[33], none[33];
    struct voters v = as_many_as_may_be(), w;
    agent_id(MSG_VOTERS_MAX - 1, last);
    agent_id(MSG_VOTERS_MAX, none);
    voters_print(&v, text);
    ck_assert_uint_eq(strlen(text), sizeof(text) - 1);
    ck_assert(voters_parse(&w, text));
    ck_assert_int_eq(w.n, 31);
    ck_assert_int_eq(voters_find(&w, last), 30);
    ck_assert_int_eq(voters_find(&w, none), -1);
    ck_assert(voters_parse(&w, ""));
    ck_assert_int_eq(w.n, 0);
}

/* Of peers: too short, no blank, twice, other letters, too many. */
TEST_LOOP(test_voters_of_nonsense_are_none, 0, 6)
{
    static const char *const bad[] = {
        "0123456789abcde ",
        "0123456789abcdef",
        "0123456789abcdef 0123456789abcdef ",
        "0123456789abcdeX ",
        "0123456789abcdef0 ",
        " ",
    };
    struct voters v;
    ck_assert(!voters_parse(&v, bad[_i]));
    ck_assert_int_eq(v.n, 0);
}

TEST(test_voters_beyond_what_there_can_be_are_none)
{
    char text[2 * VOTERS_TEXT_SIZE];
    struct voters v = as_many_as_may_be();
    voters_print(&v, text);
    (void)strcat(text, "ffffffffffffffff ");
    ck_assert(!voters_parse(&v, text));
}

SUITE("voters", "voters", .tags = "fast")
