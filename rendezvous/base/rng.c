#include "rendezvous/base/rng.h"

#include <stdio.h>
#include <sys/random.h>

#include "rendezvous/base/err.h"

void rng_init(struct rng *r, uint64_t seed)
{
    r->state = seed;
}

/* splitmix64: Steele, Lea, Flood, OOPSLA 2014. */
uint64_t rng_next(struct rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t rng_below(struct rng *r, uint32_t below)
{
    ddp_assert(below > 0);
    return (uint32_t)(rng_next(r) % below);
}

uint64_t rng_seed(void)
{
    uint64_t seed;
    ddp_assert(getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed));
    return seed;
}

void rng_id(char id[RNG_ID_LEN + 1])
{
    (void)snprintf(id, /* 32 digits and NUL: cannot be cut */
                   RNG_ID_LEN + 1, "%016llx%016llx",
                   (unsigned long long)rng_seed(),
                   (unsigned long long)rng_seed());
}
