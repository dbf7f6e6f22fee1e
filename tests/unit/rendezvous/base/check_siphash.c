/* links: rendezvous/base/siphash */
/*
 * SipHash gives the sums of its authors: those of 2-4 are in their paper and
 * beside their reference code, with this key and the text 00 01 02 ..; those of
 * 1-3 were made by another implementation that has those of 2-4, too.
 */
#include <check.h>

#include "rendezvous/base/siphash.h"
#include "tests/lib/suite.h"

static const struct {
    size_t len;
    uint64_t sum;
    uint64_t table;
} sums[] = {
    {0, UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0xabac0158050fc4dc)},
    {1, UINT64_C(0x74f839c593dc67fd), UINT64_C(0xc9f49bf37d57ca93)},
    {7, UINT64_C(0xab0200f58b01d137), UINT64_C(0xd3927d989bb11140)},
    {8, UINT64_C(0x93f5f5799a932462), UINT64_C(0x369095118d299a8e)},
    {15, UINT64_C(0xa129ca6149be45e5), UINT64_C(0xd320d86d2a519956)},
    {63, UINT64_C(0x958a324ceb064572), UINT64_C(0x9d199062b7bbb3a8)},
};

TEST_EACH(test_siphash_of_a_known_text_is_the_authors_sum, sums)
{
    static const uint64_t key[2] = {UINT64_C(0x0706050403020100),
                                    UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t text[64];
    for (uint8_t i = 0; i < sizeof(text); i++)
        text[i] = i;
    size_t len = sums[_i].len;
    const void *data = len > 0 ? text : NULL;
    ck_assert(siphash(key, data, len) == sums[_i].sum);
    ck_assert(siphash_table(key, data, len) == sums[_i].table);
}

SUITE("siphash", "fast")
