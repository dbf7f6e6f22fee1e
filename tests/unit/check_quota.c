/* links: rendezvous/base/quota rendezvous/base/err */
/*
 * Where peers come from: what counts as one place, and who has the most.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/base/quota.h"
#include "tests/lib/suite.h"

static const struct {
    const char *addr, *source;
} names[] = {
    {"10.0.0.1", "10.0.0.1"},
    {"::ffff:10.0.0.1", "10.0.0.1"},
    {"127.0.0.1", "loopback"},
    {"127.9.8.7", "loopback"},
    {"::1", "loopback"},
    {"::ffff:127.0.0.1", "loopback"},
    {"::FFFF:10.0.0.1", "10.0.0.1"},
    {"::ffff:a00:1", "10.0.0.1"},
    /* A host with an IPv4 address has 65536 networks of 6to4. */
    {"2002:a00:1:7::5", "10.0.0.1"},
    {"2002:a00:1:8::5", "10.0.0.1"},
    /* Each host behind a translator is itself. */
    {"64:ff9b::10.0.0.1", "10.0.0.1"},
    {"64:ff9b:0:1::10.0.0.1", "64:ff9b:0:1::/64"},
    /* Loopback does not come in by these ways. */
    {"2002:7f00:1::1", "2002:7f00:1::/64"},
    {"64:ff9b::127.0.0.1", "64:ff9b::/64"},
    {"::10.0.0.1", "::/64"},
    {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
    {"2001:db8:1:2::", "2001:db8:1:2::/64"},
    {"2001:db8:1:3::", "2001:db8:1:3::/64"},
    /* On one link all have that prefix, so that it tells nothing. */
    {"fe80::1:2%eth0", "fe80::1:2"},
    {"", ""},
    {"loopback", "loopback"}, /* a source is one of itself */
    {"2001:db8:1:2::/64", "2001:db8:1:2::/64"},
    {"a name that is longer than any address that there can be",
     "a name that is longer than any address that the"},
};

START_TEST(test_source_of_an_address)
{
    char text[SOURCE_TEXT_MAX];
    quota_source_of(names[_i].addr, text);
    ck_assert_str_eq(text, names[_i].source);
}
END_TEST

static void address(int i, char text[32])
{
    (void)snprintf(text, 32, "10.1.%d.%d", i / 250, i % 250);
}

/* Against a table of numbers, through every order of coming and going. */
START_TEST(test_quota_are_counted)
{
    enum {
        HOLDERS = 300,
        PLACES = 40
    };
    struct quota *s = quota_new(HOLDERS);
    int held[HOLDERS], place[HOLDERS], count[PLACES] = {0};
    char text[32];
    int n = 0;
    srand(7);
    for (int turn = 0; turn < 20000; turn++) {
        if (n < HOLDERS && (n == 0 || rand() % 5 < 3)) {
            place[n] = rand() % PLACES;
            address(place[n], text);
            held[n] = quota_take(s, text);
            count[place[n]]++;
            ck_assert_str_eq(quota_text(s, held[n]), text);
            n++;
        } else {
            int i = rand() % n;
            quota_drop(s, held[i]);
            count[place[i]]--;
            held[i] = held[--n];
            place[i] = place[n];
        }
        int p = rand() % PLACES;
        address(p, text);
        ck_assert_int_eq(quota_count_of(s, text), count[p]);
        ck_assert_int_eq(quota_find(s, text) >= 0, count[p] > 0);
    }
    quota_del(s);
}
END_TEST

/* A source with less than the others may take of the one with the most, until
 * they have the same. */
START_TEST(test_quota_the_largest_source_gives_way)
{
    struct quota *s = quota_new(16);
    ck_assert_int_eq(quota_largest(s, "10.0.0.1"), -1);
    int a = quota_take(s, "10.0.0.1");
    ck_assert_int_eq(quota_largest(s, "10.0.0.2"), -1); /* it has one */
    for (int i = 0; i < 3; i++)
        (void)quota_take(s, "10.0.0.1");
    int b = quota_take(s, "10.0.0.2");
    (void)quota_take(s, "10.0.0.2");
    ck_assert_int_eq(quota_count(s, a), 4);
    ck_assert_int_eq(quota_largest(s, "10.0.0.3"), a);
    ck_assert_int_eq(quota_largest(s, "10.0.0.2"), a);
    ck_assert_int_eq(quota_largest(s, "10.0.0.1"), -1);
    quota_drop(s, a);
    ck_assert_int_eq(quota_largest(s, "10.0.0.2"), -1); /* 3 and 2 */
    ck_assert_int_eq(quota_largest(s, "10.0.0.3"), a);
    quota_drop(s, a);
    quota_drop(s, a);
    ck_assert_int_eq(quota_largest(s, "10.0.0.3"), b);
    quota_del(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("source");
    TCase *tc = tcase_create("source");
    tcase_set_tags(tc, "fast");
    tcase_add_loop_test(tc, test_source_of_an_address, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(tc, test_quota_are_counted);
    tcase_add_test(tc, test_quota_the_largest_source_gives_way);
    suite_add_tcase(s, tc);
    return suite_run(s);
}
