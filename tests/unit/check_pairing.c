/* links: launcher/preflight/pairing rendezvous/base/err rendezvous/base/rng */
/* Who meets whom in a preflight. */
#include <check.h>
#include <stdbool.h>
#include <string.h>

#include "launcher/preflight/pairing.h"
#include "tests/lib/suite.h"

#define MOST 200

static bool met[MOST][MOST];

/* Plays a whole tournament: partners agree, nobody meets itself or the same one
 * twice. */
static void play(int n)
{
    memset(met, 0, sizeof(met));
    for (int r = 0; r < pairing_rounds(n); r++)
        for (int a = 0; a < n; a++) {
            int b = pairing_partner(n, r, a);
            if (b < 0)
                continue;
            ck_assert_int_lt(b, n);
            ck_assert_int_ne(a, b);
            ck_assert_int_eq(pairing_partner(n, r, b), a);
            ck_assert(!met[a][b]);
            met[a][b] = true;
        }
}

static int met_by(int a, int n)
{
    int count = 0;
    for (int b = 0; b < n; b++)
        count += met[a][b];
    return count;
}

/* Every pair of few nodes meets exactly once, in n-1 rounds or n. */
START_TEST(test_few_nodes_all_meet)
{
    for (int n = 1; n <= PAIRING_ALL_MAX; n++) {
        play(n);
        ck_assert_int_eq(pairing_rounds(n), n < 2 ? 0 : n % 2 ? n : n - 1);
        for (int a = 0; a < n; a++)
            ck_assert_int_eq(met_by(a, n), n - 1);
    }
}
END_TEST

/* Of many nodes each meets a bounded number of others. */
START_TEST(test_many_nodes_meet_a_few)
{
    for (int n = PAIRING_ALL_MAX + 1; n <= MOST; n++) {
        play(n);
        ck_assert_int_eq(pairing_rounds(n), PAIRING_FEW);
        for (int a = 0; a < n; a++)
            ck_assert_int_ge(met_by(a, n), PAIRING_FEW - n % 2);
    }
}
END_TEST

/* The order is a permutation, the same for the same seed, another one for
 * another, and none at all for few nodes. */
START_TEST(test_order_follows_the_seed)
{
    int one[MOST], again[MOST], other[MOST];
    bool seen[MOST] = {false};
    pairing_order(one, MOST, 7);
    pairing_order(again, MOST, 7);
    pairing_order(other, MOST, 8);
    ck_assert_mem_eq(one, again, sizeof(one));
    ck_assert_mem_ne(one, other, sizeof(one));
    for (int i = 0; i < MOST; i++) {
        ck_assert(one[i] >= 0 && one[i] < MOST && !seen[one[i]]);
        seen[one[i]] = true;
    }
    pairing_order(one, PAIRING_ALL_MAX, 7);
    for (int i = 0; i < PAIRING_ALL_MAX; i++)
        ck_assert_int_eq(one[i], i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pairing");
    TCase *tc = tcase_create("pairs");
    tcase_add_test(tc, test_few_nodes_all_meet);
    tcase_add_test(tc, test_many_nodes_meet_a_few);
    tcase_add_test(tc, test_order_follows_the_seed);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
