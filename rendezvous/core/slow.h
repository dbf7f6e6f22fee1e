/*
 * core/slow: which rank is slower than the others, by how long each rank's own
 * part of a step takes (worker_rt/own_part). Pure.
 *
 * Each node tells its slowest rank, and the median of its others. So what is
 * told of a node has one size, and of several slow ranks of one node the
 * slowest is seen.
 */
#ifndef RENDEZVOUS_CORE_SLOW_H
#define RENDEZVOUS_CORE_SLOW_H

#include <stdbool.h>
#include <stdint.h>

/* What one node tells, or one rank. All 0: nothing is known. */
struct slow_told {
    int64_t most_us;  /* the own part of its slowest rank; 0: not known .. */
    int64_t noise_us; /* .. and by how much those of its last steps differ */
    int64_t rest_us;  /* the median of its other ranks .. */
    int rest;         /* .. of which so many tell theirs */
    int local_rank;   /* of the slowest rank */
};

/* The median of all ranks but the slowest one: what each slow rank is compared
 * with. With two ranks that is the faster one. 0: fewer than two tell. */
int64_t slow_median_us(const struct slow_told *told, int n);

/*
 * By how many thousandths the own part of that rank is longer than `median_us`;
 * 0: no more than the others' may be by chance. A rank that was slow is so for
 * longer than it takes to be called slow, so that none comes and goes.
 */
int slow_permille(const struct slow_told *t, int64_t median_us, bool was_slow);

#endif
