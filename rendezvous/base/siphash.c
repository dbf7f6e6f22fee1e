#include "rendezvous/base/siphash.h"

#include <string.h>

static uint64_t rotl(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}

static inline void rounds(uint64_t v[4], int n)
{
    for (int i = 0; i < n; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] = rotl(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] = rotl(v[2], 32);
    }
}

/* With `each` rounds for a word of the text, and `last` at the end. Words are
 * little-endian, as all our machines are. */
static inline uint64_t
sum(const uint64_t key[2], const uint8_t *data, size_t len, int each, int last)
{
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575),
        key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261),
        key[1] ^ UINT64_C(0x7465646279746573),
    };
    for (size_t at = 0;; at += 8) {
        size_t n = len - at < 8 ? len - at : 8;
        uint64_t word = n < 8 ? (uint64_t)len << 56 : 0;
        if (n > 0)
            memcpy(&word, data + at, n);
        v[3] ^= word;
        rounds(v, each);
        v[0] ^= word;
        if (n < 8)
            break;
    }
    v[2] ^= 0xff;
    rounds(v, last);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash(const uint64_t key[2], const void *data, size_t len)
{
    return sum(key, data, len, 2, 4);
}

uint64_t siphash_table(const uint64_t key[2], const void *data, size_t len)
{
    return sum(key, data, len, 1, 3);
}
