/* links: launcher/agent/candidates rendezvous/proto/msg rendezvous/base/err */
/* links: rendezvous/base/json rendezvous/base/utf8 rendezvous/base/buf */
/* libs: -lcjson */
/*
 * Where a run may be served, and in which order an agent tries it.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/agent/candidates.h"
#include "tests/lib/suite.h"

/* 70 characters. */
#define A_LONG_NAME                                                            \
    "a123456789b123456789c123456789d123456789e123456789f123456789g123456789"

static struct candidates c;
static bool leased;

/* One word after the other. */
struct words {
    char text[2000];
};

static void add(struct words *w, const char *before, const char *word)
{
    ck_assert_uint_lt(strlen(w->text) + strlen(word) + 3, sizeof(w->text));
    strcat(strcat(strcat(w->text, before), word), " ");
}

/* What is in hand, as a word: the number of an endpoint, or an address. */
static const char *here(void)
{
    static char text[80];
    (void)snprintf(text, sizeof(text), "%d", candidates_which(&c));
    return candidates_target(&c)[0] != '\0' ? candidates_target(&c) : text;
}

/* The next `n` that are tried, with "|" before one that a pause is due before;
 * those whose first letters stand in `open` take the connection. */
static const char *next(int n, const char *open)
{
    static struct words all;
    all.text[0] = '\0';
    for (int i = 0; i < n; i++) {
        bool pause = candidates_next(&c, leased);
        add(&all, pause ? "|" : "", here());
        if (strchr(open, here()[0]) != NULL)
            candidates_answered(&c);
        candidates_check(&c);
    }
    return all.text;
}

static void fresh(int endpoints, const char *addrs)
{
    candidates_init(&c, endpoints);
    candidates_learn(&c, addrs);
    candidates_served(&c);
}

/* As it has always been: the same again, each time after a pause. */
START_TEST(test_candidates_single_endpoint_is_all_there_is)
{
    candidates_init(&c, 1);
    ck_assert_str_eq(here(), "0");
    ck_assert_int_eq(candidates_count(&c), 1);
    ck_assert_str_eq(next(3, ""), "|0 |0 |0 ");
    ck_assert_str_eq(next(3, "0"), "|0 |0 |0 ");
    candidates_served(&c);
    ck_assert_str_eq(next(2, ""), "|0 |0 ");
}
END_TEST

START_TEST(test_candidates_list_is_tried_in_order)
{
    candidates_init(&c, 3);
    ck_assert_str_eq(next(5, ""), "1 2 |0 1 2 ");
}
END_TEST

/* Endpoints first, then the voters, from the one that was lost onwards. */
START_TEST(test_candidates_pass_begins_behind_the_server_that_was_lost)
{
    fresh(2, "a:1 b:2 c:3 ");
    ck_assert_int_eq(candidates_count(&c), 5);
    ck_assert_str_eq(next(3, ""), "1 a:1 b:2 ");
    candidates_served(&c);
    ck_assert_str_eq(next(4, ""), "c:3 |0 1 a:1 ");
}
END_TEST

/* After the pass: home is the first that takes connections; each of the others
 * is visited between two stays. */
START_TEST(test_candidates_home_is_where_most_of_the_time_goes)
{
    fresh(1, "a:1 b:2 c:3 ");
    ck_assert_str_eq(next(5, "bc"), "a:1 b:2 0 c:3 0 ");
    ck_assert_int_eq(candidates_patience(&c), 1);
    ck_assert_str_eq(next(1, "bc"), "|b:2 ");
    ck_assert_int_eq(candidates_patience(&c), 4);
    ck_assert_str_eq(next(1, "bc"), "|0 ");
    ck_assert_int_eq(candidates_patience(&c), 1);
    ck_assert_str_eq(next(6, "bc"), "b:2 |a:1 b:2 c:3 |b:2 |0 ");
}
END_TEST

/* While a lease is held: one pass after the other, and the lost server again
 * behind each that answers in vain. */
START_TEST(test_candidates_lost_server_is_tried_again_while_a_lease_is_held)
{
    leased = true;
    fresh(1, "a:1 b:2 10.0.0.1:3 ");
    candidates_silent(&c, "10.0.0.1");
    ck_assert_str_eq(next(3, "a"), "a:1 0 b:2 ");
    ck_assert_str_eq(next(5, "a"), "|0 a:1 0 b:2 10.0.0.1:3 ");
    ck_assert_str_eq(next(2, ""), "|0 a:1 ");
    ck_assert(!candidates_are_tried(&c));
    leased = false;
    ck_assert_str_eq(next(3, ""), "b:2 10.0.0.1:3 |a:1 ");
    ck_assert(candidates_are_tried(&c));
}
END_TEST

START_TEST(test_candidates_home_that_is_gone_gives_way_to_another)
{
    fresh(1, "a:1 b:2 c:3 ");
    ck_assert_str_eq(next(6, "bc"), "a:1 b:2 0 c:3 0 |b:2 ");
    ck_assert_str_eq(next(2, "c"), "|0 b:2 "); /* refused */
    ck_assert_str_eq(next(1, "c"), "c:3 ");
    ck_assert_int_eq(candidates_patience(&c), 4);
    ck_assert_str_eq(next(1, "ac"), "|a:1 "); /* stands before c */
    ck_assert_int_eq(candidates_patience(&c), 4);
    ck_assert_str_eq(next(4, "ac"), "b:2 |a:1 c:3 |a:1 ");
}
END_TEST

/* What is on the silent host would cost a part of the lease; later it is tried
 * like the others. */
START_TEST(test_candidates_silent_host_is_left_out_of_the_first_pass)
{
    fresh(1, "10.0.0.1:29500 10.0.0.2:29500 10.0.0.1:7 10.0.0.11:8 ");
    candidates_silent(&c, "10.0.0.1");
    ck_assert_str_eq(next(2, ""), "10.0.0.2:29500 10.0.0.11:8 ");
    ck_assert_str_eq(next(2, ""), "|0 10.0.0.1:29500 ");
    fresh(1, "fe80::1:5 fe80::2:5 ");
    candidates_silent(&c, "fe80::1");
    ck_assert_str_eq(next(1, ""), "fe80::2:5 ");
    fresh(1, "a:1 ");
    candidates_silent(&c, "");
    ck_assert_str_eq(next(1, ""), "a:1 ");
}
END_TEST

/* The place that a server names is the next one; the second such word without a
 * server that has the authority costs a pause. */
START_TEST(test_candidates_goes_where_it_is_sent)
{
    fresh(1, "a:1 b:2 ");
    candidates_moved(&c, "b:2");
    ck_assert_str_eq(next(1, ""), "b:2 ");
    candidates_moved(&c, "x:9");
    ck_assert_str_eq(next(1, ""), "|x:9 ");
    candidates_moved(&c, "b:2");
    ck_assert_str_eq(next(1, ""), "|b:2 ");
    candidates_served(&c);
    candidates_moved(&c, "x:9");
    ck_assert_str_eq(next(1, ""), "x:9 ");
    ck_assert_str_eq(next(2, ""), "|0 a:1 ");
}
END_TEST

/* A pass from a place that is in no list tries each place once. */
START_TEST(test_candidates_unlisted_server_that_is_lost)
{
    fresh(1, "a:1 b:2 ");
    candidates_moved(&c, "x:9");
    ck_assert_str_eq(next(1, ""), "x:9 ");
    candidates_served(&c);
    ck_assert_str_eq(next(4, ""), "0 a:1 b:2 |0 ");
}
END_TEST

/* A new round has other voters; the server in hand stays what it is. */
START_TEST(test_candidates_new_list_keeps_the_one_in_hand)
{
    fresh(1, "a:1 b:2 ");
    ck_assert_str_eq(next(2, ""), "a:1 b:2 ");
    candidates_learn(&c, "b:2 d:4 ");
    ck_assert_str_eq(here(), "b:2");
    ck_assert_str_eq(next(2, ""), "d:4 |0 ");
    ck_assert_str_eq(next(1, ""), "|b:2 ");
    candidates_learn(&c, "d:4 ");
    ck_assert_str_eq(here(), "b:2"); /* in no list any more */
    ck_assert_str_eq(next(2, ""), "0 d:4 ");
}
END_TEST

/* It comes from a peer. */
START_TEST(test_candidates_what_is_no_address_is_left_out)
{
    static const char *const bad[] = {
        "-",        "a",    "a:",    ":1",         "a:0",
        "a:01",     "a:-1", "a:1x",  "a:65536",    "a:99999",
        "a:123456", "",     "a\t:1", "\xc3\xa4:1", A_LONG_NAME ":123"};
    struct words addrs = {""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!candidates_is_addr(bad[i]), "'%s'", bad[i]);
        add(&addrs, "", bad[i]);
    }
    fresh(1, addrs.text);
    ck_assert_int_eq(candidates_count(&c), 1);
    fresh(1, "a:1 - a:1 b:65535");
    ck_assert_str_eq(next(3, ""), "a:1 b:65535 |0 ");
    ck_assert(candidates_is_addr("::1:80"));
}
END_TEST

START_TEST(test_candidates_more_voters_than_there_can_be_are_cut)
{
    struct words addrs = {""};
    for (int i = 1; i <= 40; i++) {
        char one[16];
        (void)snprintf(one, sizeof(one), "h%d:1", i);
        add(&addrs, "", one);
    }
    fresh(1, addrs.text);
    ck_assert_int_eq(candidates_count(&c), 1 + MSG_VOTERS_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("candidates");
    TCase *t = tcase_create("candidates");
    const TTest *const tests[] = {
        test_candidates_single_endpoint_is_all_there_is,
        test_candidates_list_is_tried_in_order,
        test_candidates_pass_begins_behind_the_server_that_was_lost,
        test_candidates_home_is_where_most_of_the_time_goes,
        test_candidates_lost_server_is_tried_again_while_a_lease_is_held,
        test_candidates_home_that_is_gone_gives_way_to_another,
        test_candidates_silent_host_is_left_out_of_the_first_pass,
        test_candidates_goes_where_it_is_sent,
        test_candidates_unlisted_server_that_is_lost,
        test_candidates_new_list_keeps_the_one_in_hand,
        test_candidates_what_is_no_address_is_left_out,
        test_candidates_more_voters_than_there_can_be_are_cut,
    };
    tcase_set_tags(t, "fast");
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
