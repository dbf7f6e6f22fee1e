/*
 * trainer/ops/random: SplitMix64 and sums of its numbers, so that one seed
 * gives the same bits on every machine.
 */
#include "trainer/ops/random.h"

/* SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, any seed is good. */
static uint64_t rng_next(uint64_t *rng)
{
    uint64_t z = *rng += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The upper 24 bits, which a float holds exactly: in [0, 1). */
static float rng_float(uint64_t *rng)
{
    return (float)(rng_next(rng) >> 40) * 0x1p-24f;
}

void random_uniform(float *out, size_t n, float lo, float hi, uint64_t *rng)
{
    for (size_t i = 0; i < n; i++)
        out[i] = lo + (hi - lo) * rng_float(rng);
}

void random_normal(float *out, size_t n, uint64_t *rng)
{
    for (size_t i = 0; i < n; i++) {
        float sum = -6.0f;
        for (int k = 0; k < 12; k++)
            sum += rng_float(rng);
        out[i] = sum;
    }
}
