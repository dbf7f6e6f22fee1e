#include "rendezvous/base/rng.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

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

/* getrandom: Linux 3.17; a sandbox may refuse it. */
uint64_t rng_seed(void)
{
    uint64_t seed;
    ssize_t n = getrandom(&seed, sizeof(seed), 0);
    if (n < 0) {
        int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        n = fd >= 0 ? read(fd, &seed, sizeof(seed)) : -1;
        if (fd >= 0)
            (void)close(fd); /* only read */
    }
    ddp_assert(n == (ssize_t)sizeof(seed));
    return seed;
}

void rng_id(char id[RNG_ID_LEN + 1])
{
    (void)snprintf(id, /* 32 digits and NUL: cannot be cut */
                   RNG_ID_LEN + 1, "%016llx%016llx",
                   (unsigned long long)rng_seed(),
                   (unsigned long long)rng_seed());
}
