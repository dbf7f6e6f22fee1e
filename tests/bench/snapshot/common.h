/*
 * tests/bench/snapshot/common: what the two programs that time snapshots share:
 * this one's on the CPU and tests/gpu/bench_snapshot.
 */
#ifndef BENCH_SNAPSHOT_COMMON_H
#define BENCH_SNAPSHOT_COMMON_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "worker_rt/ddp.h"

/* Of the last call. */
static struct ddp_error err;

/* Ends the program where that call of libddp failed. */
static inline void check(int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, err.text);
    exit(1);
}

static inline double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The value below which such a part of the n lies. Sorts them. */
static inline double part_of(double *values, int n, double part)
{
    qsort(values, (size_t)n, sizeof(*values), by_size);
    return values[(int)(part * (n - 1))];
}

#endif
