/* links: rendezvous/base/mono */
/*
 * Sums of times: none overflows, be it from before this machine's boot.
 */
#include <check.h>

#include "rendezvous/base/mono.h"
#include "tests/lib/suite.h"

static const struct {
    int64_t now_us;
    int64_t delta_us;
    int64_t sum_us;
} sums[] = {
    {5, 7, 12},
    {0, MONO_NEVER, MONO_NEVER},
    {MONO_NEVER, 0, MONO_NEVER},
    {MONO_NEVER - 3, 2, MONO_NEVER - 1},
    {MONO_NEVER - 3, 4, MONO_NEVER},
    {-86399000000000, 2 * MONO_S, -86398998000000},
    {-5, MONO_NEVER, MONO_NEVER},
};

TEST_EACH(test_mono_after_is_the_sum_or_never, sums)
{
    ck_assert_int_eq(mono_after(sums[_i].now_us, sums[_i].delta_us),
                     sums[_i].sum_us);
}

SUITE("mono", "mono", .tags = "fast")
