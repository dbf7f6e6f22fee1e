/*
 * trainer/ops/random: random numbers for first parameters and made-up samples.
 *
 * Each function fills out (n) and moves the state `*rng` on. Every number is a
 * good first state, and the same state gives the same sequence, in one call or
 * in several.
 */
#ifndef TRAINER_OPS_RANDOM_H
#define TRAINER_OPS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Evenly distributed in [lo, hi). */
void random_uniform(float *out, size_t n, float lo, float hi, uint64_t *rng);

/* Normal with mean 0 and deviation 1: a sum of twelve even numbers, which is
 * exact on every machine, as a logarithm would not be. */
void random_normal(float *out, size_t n, uint64_t *rng);

#endif
