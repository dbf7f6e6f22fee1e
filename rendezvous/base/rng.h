/*
 * base/rng: random numbers. A small seeded generator for jitter and for the
 * simulator (the same seed gives the same run), and the kernel's for ids.
 */
#ifndef RENDEZVOUS_BASE_RNG_H
#define RENDEZVOUS_BASE_RNG_H

#include <stdint.h>

#define RNG_ID_LEN 32 /* hexadecimal digits of 128 bits */

struct rng {
    uint64_t state;
};

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_next(struct rng *r);

/* Evenly in [0, below); `below` > 0. The modulo's bias is below 2^-32. */
uint32_t rng_below(struct rng *r, uint32_t below);

/* 128 bits of the kernel's randomness as text, NUL-terminated. */
void rng_id(char id[RNG_ID_LEN + 1]);

/* 64 bits of the kernel's randomness, for seeding. */
uint64_t rng_seed(void);

#endif
