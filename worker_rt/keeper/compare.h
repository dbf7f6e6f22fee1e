/*
 * worker_rt/keeper/compare: pieces that several ranks have must be equal to the
 * bit; which rank has another one? Pure: no I/O, no clock.
 *
 * Each piece has a weight on each of its holders: one less than there are
 * holders on the first of them, -1 on the others. The weights add up to 0. So
 * do the sums of the piece's bytes, each times its weight, if and only if they
 * are equal, but for one case in 2^64. So a few numbers that all ranks add up
 * tell whether all pieces are equal, whoever holds which, and roughly which are
 * not; of those alone the ranks then tell each other their sums.
 */
#ifndef WORKER_RT_KEEPER_COMPARE_H
#define WORKER_RT_KEEPER_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "worker_rt/snapshot/pieces.h"

/* The numbers that are added up; each piece counts in one of them. */
#define COMPARE_BUCKETS 512

/* What a rank knows of one of its pieces. */
struct compare_piece {
    uint64_t part[2]; /* of its key */
    uint64_t weight;  /* 0: nobody else has it, or it is not compared */
    int fresh; /* so many comparisons from now on in which it may differ: then
                * the program wants it so */
    bool left_out;
};

/* What is known of those of `now` that were among `before`, which is sorted by
 * it, is known still. */
void compare_carry_over(struct compare_piece *now,
                        size_t n,
                        struct compare_piece *before,
                        size_t nbefore);

/* What ranks tell each other of a piece. It travels: 64-bit members only. */
struct compare_row {
    uint64_t part[2];
    uint64_t sum;
    int64_t fresh; /* 1: on this rank it may differ */
};

/*
 * The weights of the `mine` pieces from `first` on, of the keys of all ranks,
 * rank behind rank; no rank has one twice. NOMEM.
 */
int compare_weigh(const struct piece_key *keys,
                  size_t n,
                  size_t first,
                  size_t mine,
                  uint64_t *weights,
                  struct ddp_err *err);

/* Which of the numbers a piece counts in. */
size_t compare_bucket(const uint64_t part[2]);

enum compare_kind {
    COMPARE_LEFT_OUT, /* it may differ, and does */
    COMPARE_ODD,      /* the rank has another one than most holders */
    COMPARE_TIE       /* no more than half of the holders have the same */
};

struct compare_finding {
    enum compare_kind kind;
    uint64_t part[2];
    int rank;    /* ODD: which; else the first holder */
    int other;   /* a holder that has another one than that */
    int holders; /* how many have the piece; it is .. */
    int alike;   /* .. the same on so many of them, and on fewer any other */
};

/*
 * What is wrong with the pieces of these rows, which are those of `world`
 * ranks, counts[r] of rank r, one rank behind the other. By piece; one finding
 * for each rank that is odd in it. `*found` becomes `*n` of them, which the
 * caller frees. The same on all ranks with the same rows. NOMEM.
 */
int compare_judge(const struct compare_row *rows,
                  const size_t *counts,
                  int world,
                  struct compare_finding **found,
                  size_t *n,
                  struct ddp_err *err);

/* The one to be told: the odd one of the lowest rank, else the first tie. NULL:
 * all that differs may differ. */
const struct compare_finding *compare_worst(const struct compare_finding *found,
                                            size_t n);

/* The first finding about that piece; NULL: there is none. */
const struct compare_finding *compare_find(const struct compare_finding *found,
                                           size_t n,
                                           const uint64_t part[2]);

#endif
