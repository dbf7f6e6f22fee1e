/* links: rendezvous/core/inner/state/due rendezvous/base/{err,mono} */
/* What is due first of many things, against a plain list of them. */
#include <check.h>
#include <stdlib.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/due.h"
#include "tests/lib/suite.h"

#define MANY 1000

static const int sizes[] = {1, 2, 3, 64, 65, MANY};

TEST_EACH(test_due_first_agrees_with_a_list, sizes)
{
    int64_t at_us[MANY];
    int n = sizes[_i];
    struct due *d = due_new(n);
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(due_first(d), MONO_NEVER);
    for (int i = 0; i < n; i++)
        at_us[i] = MONO_NEVER;
    unsigned dice = 7;
    for (int turn = 0; turn < 20000; turn++) {
        dice = dice * 1103515245u + 12345u;
        int i = (int)(dice / 65536u % (unsigned)n);
        at_us[i] = dice % 5 == 0 ? MONO_NEVER : (int64_t)(dice / 256 % 5000);
        due_set(d, i, at_us[i]);
        ck_assert_int_eq(due_at(d, i), at_us[i]);
        if (turn % 16 != 0)
            continue;
        int64_t first_us = MONO_NEVER;
        for (int k = 0; k < n; k++)
            first_us = mono_min(first_us, at_us[k]);
        ck_assert_int_eq(due_first(d), first_us);
    }
    due_del(d);
}

/* Each one that was touched is taken once. */
TEST(test_due_touched_is_taken_once)
{
    struct due *d = due_new(8);
    int taken = 0, i;
    ck_assert_ptr_nonnull(d);
    ck_assert_int_eq(due_take_touched(d), -1);
    for (int round = 0; round < 2; round++) {
        due_touch(d, 3);
        due_touch(d, 7);
        due_touch(d, 3);
        while ((i = due_take_touched(d)) >= 0)
            taken += i;
        ck_assert_int_eq(taken, 10 * (round + 1));
    }
    due_del(d);
    due_del(NULL);
}

SUITE("due", "due", .tags = "fast")
