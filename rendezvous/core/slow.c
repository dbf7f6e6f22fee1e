#include "rendezvous/core/slow.h"

#include <stddef.h>

/*
 * A rank is slow from SLOW_PERMILLE on. With a noise of 5 % in each step, the
 * mean of 20 steps less the median of three such means has one of 1.4 %. So
 * hardly any rank is missed that is 10 % slower, and none is called slow that
 * is not, by five times that. Where there is more noise, those five times (1.4
 * times the noise of a step) are more than SLOW_PERMILLE. Who is slow stays so
 * until less than STAYS_PART of that is left.
 */
#define SLOW_PERMILLE 70
#define NOISE_TIMES   14  /* tenths */
#define STAYS_PART    6   /* tenths */
#define LEAST_US      200 /* a shorter time matters to nobody */

#define PERMILLE_MAX 1000000

static int64_t count_up_to(const struct slow_told *told, int n, int64_t us)
{
    int64_t count = 0;
    for (int i = 0; i < n; i++) {
        if (told[i].most_us == 0)
            continue;
        count += told[i].most_us <= us ? 1 : 0;
        count += told[i].rest_us <= us ? told[i].rest : 0;
    }
    return count;
}

/* The part with so many before it in order. */
static int64_t part_at(const struct slow_told *told, int n, int64_t place)
{
    int64_t low = 0, high = 0; /* it is above the one, at most the other */
    for (int i = 0; i < n; i++)
        high = told[i].most_us > high ? told[i].most_us : high;
    while (high - low > 1) {
        int64_t us = low + (high - low) / 2;
        if (count_up_to(told, n, us) > place)
            high = us;
        else
            low = us;
    }
    return high;
}

int64_t slow_median_us(const struct slow_told *told, int n)
{
    int64_t ranks = count_up_to(told, n, INT64_MAX);
    if (ranks < 2)
        return 0;
    return part_at(told, n, (ranks - 2) / 2) / 2 +
           part_at(told, n, (ranks - 1) / 2) / 2;
}

int slow_permille(const struct slow_told *t, int64_t median_us, bool was_slow)
{
    int64_t more_us = t->most_us - median_us;
    int64_t by_median_us = median_us / 1000 * SLOW_PERMILLE;
    int64_t by_noise_us = t->noise_us / 10 * NOISE_TIMES;
    int64_t limit_us = by_noise_us > by_median_us ? by_noise_us : by_median_us;
    if (was_slow)
        limit_us = limit_us / 10 * STAYS_PART;
    if (limit_us < LEAST_US)
        limit_us = LEAST_US;
    if (median_us == 0 || t->most_us == 0 || more_us < limit_us)
        return 0;
    double permille = 1000 * (double)more_us / (double)median_us;
    return permille < PERMILLE_MAX ? (int)permille : PERMILLE_MAX;
}
